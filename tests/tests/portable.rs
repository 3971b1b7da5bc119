//! The server that waits with poll(2) alone: it sends the same bytes, sleeps while there is nothing to do, and ends.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_tests::{ARCHITECTURES, PROCESSES, Server, admin, family, scripts, site, wait_for};

/// Without rings, which it lacks too.
fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().filter(|arch| *arch != "uring" && *arch != PROCESSES)
}

fn start(arch: &str, root: &Path) -> Server {
    Server::start(arch, root, &["--system-calls", "portable"])
}

/// How often each of its threads has slept, and the hundredths of seconds that they have run.
fn activity(server: &Server) -> (HashMap<String, u64>, u64) {
    let (mut sleeps, mut ticks) = (HashMap::new(), 0);
    for process in family::of(server) {
        let threads = process.threads("voluntary_ctxt_switches").into_iter();
        sleeps.extend(threads.map(|(thread, _, words)| (thread, words[0].parse::<u64>().expect("a number"))));
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        ticks += fields.map(|field| field.parse::<u64>().expect("a number")).sum::<u64>();
    }
    (sleeps, ticks)
}

/// What it has begun comes to an end, and then it sleeps.
fn assert_sleeps(server: &Server, arch: &str, while_what: &str) {
    const LOOK: Duration = Duration::from_secs(2);
    let mut before = activity(server);
    wait_for(&format!("{arch} sleeps, {while_what}"), || {
        thread::sleep(LOOK);
        let after = activity(server);
        let slept = |(thread, count): (&String, &u64)| count - before.0.get(thread).unwrap_or(&0);
        let most = after.0.iter().map(slept).max().expect("there are threads");
        let ticks = after.1.saturating_sub(before.1);
        before = after;
        eprintln!("{arch}, {while_what}: one thread slept {most} times; {ticks} ticks");
        // A worker of mt and mp that waits for a client looks up now and then.
        most < 40 && ticks < 10
    });
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

/// Programs that have ended, and whose responses have no room: one of so many has to have its last bytes left in its socket.
#[test]
fn a_program_that_has_ended_keeps_nobody_awake() {
    let (site, programs) = (site::make(), scripts::make());
    scripts::script(
        programs.path(),
        "zeros",
        "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'\nexec head -c \"$QUERY_STRING\" /dev/zero\n",
    );
    let cgi = format!("/cgi={}", programs.path().display());
    let everywhere = architectures().map(|arch| (arch, "portable"));
    for (arch, calls) in everywhere.chain([("mt", "all"), ("mp", "all")]) {
        let flags = [
            "--system-calls",
            calls,
            "--cgi",
            &cgi,
            "--program-buffer-bytes",
            "256K",
            "--program-spool-bytes",
            "0",
        ];
        let server = Server::start(arch, site.path(), &flags);
        let ask = |number: usize| {
            let mut client = server.connect();
            let size = 128_000 * number;
            write!(client, "GET /cgi/zeros?{size} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            client
        };
        let clients: Vec<TcpStream> = (1..=40).map(ask).collect();
        assert_sleeps(&server, arch, "programs have ended");
        for (client, number) in clients.into_iter().zip(1..).take(3) {
            let got = flash_tests::read_all(&mut client.try_clone().unwrap()).len();
            assert!(got > 128_000 * number, "{arch}: {got} of response {number}");
        }
        server.stop();
    }
}

#[test]
fn it_says_how_many_guesses_were_wrong() {
    let site = site::make();
    let socket = site.path().join("admin.sock");
    let admin = format!("unix:{}", socket.display());
    let server = Server::start("amped", site.path(), &["--system-calls", "portable", "--admin", &admin]);
    let guesses = || {
        let (_, status) = admin::ask(&socket, "GET", "/status.txt");
        let (before, _) = status.split_once(" guesses were wrong").unwrap_or_else(|| panic!("{status}"));
        let mut words = before.rsplit([' ', '(']);
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (all, _, wrong) = (number(), number(), number());
        all.zip(wrong).unwrap_or_else(|| panic!("{status}"))
    };
    assert_eq!(guesses(), (0, 0));
    // Of its first window nobody knows; with the second request, all is known.
    for _ in 0..2 {
        assert_eq!(server.get("/3000000.bin").body, site::pattern(3_000_000));
    }
    let (all, wrong) = guesses();
    assert!(all > 0 && wrong == 0, "{wrong} of {all}");
    server.stop();
}
