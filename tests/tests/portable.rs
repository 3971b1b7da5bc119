//! The server that waits with poll(2) alone: it sends the same bytes, sleeps while there is nothing to do, and ends.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use flash_tests::{ARCHITECTURES, PROCESSES, Server, family, site, wait_for};

/// Without rings, which it lacks too.
fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().filter(|arch| *arch != "uring" && *arch != PROCESSES)
}

fn start(arch: &str, root: &std::path::Path) -> Server {
    Server::start(arch, root, &["--system-calls", "portable"])
}

/// How often its threads have slept, the hundredths of seconds that they have run, and how many there are.
fn activity(server: &Server) -> (u64, u64, u64) {
    let (mut sleeps, mut ticks, mut count) = (0, 0, 0);
    for process in family::of(server) {
        let threads = process.status("voluntary_ctxt_switches");
        count += threads.len() as u64;
        sleeps += threads.iter().map(|(_, words)| words[0].parse::<u64>().expect("a number")).sum::<u64>();
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        ticks += fields.map(|field| field.parse::<u64>().expect("a number")).sum::<u64>();
    }
    (sleeps, ticks, count)
}

fn assert_sleeps(server: &Server, arch: &str, while_what: &str) {
    const LOOK: Duration = Duration::from_secs(2);
    // What it has begun comes to an end first.
    thread::sleep(Duration::from_secs(1));
    let before = activity(server);
    thread::sleep(LOOK);
    let after = activity(server);
    let (sleeps, ticks) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let said = format!("{arch}, {while_what}: {} threads, {sleeps} sleeps, {ticks} ticks", after.2);
    // A worker of mt and mp that waits for a client looks up now and then.
    assert!(sleeps < 20 * after.2 && ticks < 10, "{said}");
    eprintln!("{said}");
}

fn events_of_linux(server: &Server) -> Vec<String> {
    let open = |process: &family::Process| {
        let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).map(|to| to.display().to_string())
    };
    let kinds = ["eventpoll", "eventfd", "signalfd", "timerfd", "io_uring"];
    let mut all: Vec<String> = family::of(server).iter().flat_map(open).collect();
    all.retain(|name| kinds.iter().any(|kind| name.contains(kind)));
    all
}

#[test]
fn it_sends_the_same_bytes_and_sleeps_between_requests() {
    let site = site::make();
    for arch in architectures() {
        let server = start(arch, site.path());
        let idle: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
        for mut client in &idle[10..] {
            client.write_all(b"GET /a.txt HTTP/1.1\r\n").unwrap();
        }
        for _ in 0..3 {
            assert_eq!(server.get("/a.txt").status, 200);
            assert_eq!(server.get("/3000000.bin").body, site::pattern(3_000_000));
        }
        assert_eq!(events_of_linux(&server), [""; 0]);
        assert_sleeps(&server, arch, "clients are idle");
        for mut client in &idle[10..] {
            client.write_all(b"Host: h\r\nConnection: close\r\n\r\n").unwrap();
        }
        let answered = |client: &TcpStream| flash_tests::read_all(&mut client.try_clone().unwrap()).len();
        assert!(idle[10..].iter().all(|client| answered(client) > 0), "{arch}");
        drop(idle);
        server.stop();
    }
}

/// It knows that there are more requests, and that there is no room for responses. Neither may keep it awake.
#[test]
fn a_client_that_asks_for_more_and_takes_nothing_keeps_nobody_awake() {
    let site = site::make();
    for arch in architectures() {
        let server = start(arch, site.path());
        let clients: Vec<TcpStream> = (0..4).map(|_| server.connect()).collect();
        for mut client in &clients {
            for _ in 0..20 {
                client.write_all(b"GET /3000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        }
        assert_sleeps(&server, arch, "clients take nothing");
        drop(clients);
        wait_for("connections end with their clients", || server.get("/a.txt").status == 200);
        assert_sleeps(&server, arch, "clients are gone");
        server.stop();
    }
}
