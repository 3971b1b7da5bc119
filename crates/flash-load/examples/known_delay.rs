//! What clients add to the waits that they measure, at half of the load that they can make: a server answers after a
//! delay, and writes down what the delay really was. The kernel's way there and back counts as theirs.
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

use flash_load::{Address, Arrivals, Crowd, Load, Manner, Pace, Report, Server, Until, Urls, run};
use rustix::event::{Timespec, epoll};
use rustix::thread::{CpuSet, sched_setaffinity};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const DELAY: Duration = Duration::from_millis(1);
/// For the connections to be there.
const WARM_UP: Duration = Duration::from_secs(1);
const SECONDS: u64 = 5;

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
    let open = Pace::Open { per_second: capacity / 2.0, arrivals: Arrivals::Poisson, connections_max: 1024 };
    let report = ask(address, open, &known)?;

    let mut delays_ns = known.delays_ns.lock().unwrap().clone();
    delays_ns.sort_unstable();
    let real = |part: f64| delays_ns[((delays_ns.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!("{capacity:.0} requests a second at most; at {:.0}, in µs:", report.requests_per_second);
    println!("      server  clients  difference");
    let seen = &report.latency_us;
    for (name, part, seen) in [("p50", 0.5, seen.p50), ("p90", 0.9, seen.p90), ("p99", 0.99, seen.p99)] {
        println!("{name} {:9.1} {seen:8.1} {:11.1}", real(part), seen - real(part));
    }
    Ok(())
}

fn ask(server: SocketAddr, pace: Pace, known: &Known) -> Result<Report, flash_load::Error> {
    let workload = Arc::new(Urls::new(["/".to_owned()], "all"));
    let load = Load {
        server: Server { address: Address::Tcp(server), authority: server.to_string() },
        crowds: vec![Crowd { workload, pace, manner: Manner::default() }],
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
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut waiting: VecDeque<(Instant, usize)> = VecDeque::new();
    let mut events = Vec::with_capacity(256);
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let number = epoll::EventData::new_u64(streams.len() as u64);
            epoll::add(&epoll, &stream, number, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
            streams.push(stream);
        }
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default()))?;
        for event in &events {
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
