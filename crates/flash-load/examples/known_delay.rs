//! Measures the delay that clients add to the waits that they measure, up to half of the load that they can make. A server
//! answers after a delay, and records the real length of the delay. The kernel's way to the server and back counts as the
//! clients' delay.
//!
//! `cargo run --release -p flash-load --example known_delay`: the server spins on processor 0, the clients have processor 1.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flash_load::{
    Address, Arrivals, ClientGroup, ClientOptions, Load, Pace, Report, Server, Until, Urls, run,
};
use rustix::event::{Timespec, epoll};
use rustix::thread::{CpuSet, sched_setaffinity};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const DELAY: Duration = Duration::from_millis(1);
/// For the connections to be there.
const WARM_UP: Duration = Duration::from_secs(1);
const SECONDS: u64 = 5;
/// Of what a closed loop can ask.
const PARTS: [f64; 3] = [0.1, 0.25, 0.5];
/// In which the kernel counts for people, whatever its own clock (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;
/// What epoll calls the listener. No connection has this number.
const LISTENER: u64 = u64::MAX;

/// What the server and its observer share.
#[derive(Default)]
struct Known {
    delay_ns: AtomicU64,
    /// From a request's arrival in the program to its answer's departure, in nanoseconds.
    delays_ns: Mutex<Vec<u64>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, known) = (listener.local_addr()?, Arc::new(Known::default()));
    let shared = Arc::clone(&known);
    thread::spawn(move || answer_all(&listener, &shared).expect("the server serves"));
    stay_on(1)?;

    let closed = Pace::Closed { clients: 64, think: Duration::ZERO };
    let capacity = ask(address, closed, &known)?.requests_per_second;
    known.delay_ns.store(DELAY.as_nanos() as u64, Ordering::Relaxed);
    println!("{capacity:.0} requests a second at most. What clients add, in µs:");
    println!("part of it      p50      p90      p99   the server's own waits    stolen");
    for part in PARTS {
        let open =
            Pace::Open { per_second: part * capacity, arrivals: Arrivals::Poisson, connections_max: 1024 };
        let before = stolen()?;
        let seen = ask(address, open, &known)?.latency_us;
        let stolen = 100.0 * (stolen()? - before) / (WARM_UP.as_secs_f64() + SECONDS as f64);
        let mut real = known.delays_ns.lock().unwrap().clone();
        real.sort_unstable();
        let [p50, p90, p99] = [50, 90, 99].map(|of_100| real[(real.len() - 1) * of_100 / 100] as f64 / 1e3);
        let [by50, by90, by99] = [seen.p50 - p50, seen.p90 - p90, seen.p99 - p99];
        println!("{part:10} {by50:8.1} {by90:8.1} {by99:8.1} {p50:8.1} {p90:8.1} {p99:8.1} {stolen:7.1} %");
    }
    Ok(())
}

/// Seconds that the hypervisor took from the two processors together. Neither the server nor the clients cause that delay.
fn stolen() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ours = stat.lines().filter(|line| line.starts_with("cpu0 ") || line.starts_with("cpu1 "));
    let ticks = ours.map(|line| line.split_whitespace().nth(8).unwrap_or("0").parse::<f64>());
    Ok(ticks.sum::<Result<f64, _>>()? / TICKS_PER_SECOND)
}

fn ask(server: SocketAddr, pace: Pace, known: &Known) -> Result<Report, flash_load::Error> {
    let workload = Arc::new(Urls::new(["/".to_owned()], "all"));
    let load = Load {
        server: Server { address: Address::Tcp(server), authority: server.to_string(), tls: None },
        groups: vec![ClientGroup { workload, pace, options: ClientOptions::default() }],
        threads: 1,
        warm_up: WARM_UP,
        until: Until::Time(Duration::from_secs(SECONDS)),
        timeout: Duration::from_secs(10),
        bits_per_second_min: None,
        seed: 1,
    };
    let mut is_warm = false;
    run(&load, &AtomicBool::new(false), |live| {
        if live.elapsed >= WARM_UP && !is_warm {
            is_warm = true;
            known.delays_ns.lock().unwrap().clear();
        }
    })
}

fn stay_on(processor: usize) -> rustix::io::Result<()> {
    let mut processors = CpuSet::new();
    processors.set(processor);
    sched_setaffinity(None, &processors)
}

/// Never sleeps, so that it is late for nothing.
fn answer_all(listener: &TcpListener, known: &Known) -> std::io::Result<()> {
    stay_on(0)?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut waiting: VecDeque<(Instant, usize)> = VecDeque::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()))?;
        for event in &events {
            if event.data.u64() == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let number = epoll::EventData::new_u64(streams.len() as u64);
                epoll::add(&epoll, &stream, number, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
                streams.push(stream);
                continue;
            }
            let number = event.data.u64() as usize;
            // One request at a time comes over a connection, and in one piece.
            if matches!((&streams[number]).read(&mut [0; 4096]), Ok(1..)) {
                waiting.push_back((Instant::now(), number));
            }
        }
        let delay = Duration::from_nanos(known.delay_ns.load(Ordering::Relaxed));
        while let Some(&(came, number)) = waiting.front()
            && came.elapsed() >= delay
        {
            waiting.pop_front();
            // A client that has left does not matter.
            let _ = (&streams[number]).write(ANSWER);
            known.delays_ns.lock().unwrap().push(came.elapsed().as_nanos() as u64);
        }
    }
}
