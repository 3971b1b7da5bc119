//! Clients that stay connected through many reloads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flash_tests::{PROCESSES, read_all, reply, site, wait_for};

use crate::setup::{Setup, architectures, each};

const CLIENTS: usize = 8;
const RELOADS: u64 = 100;
const PAUSE: Duration = Duration::from_millis(25);

/// Requests over one connection until it is told to stop. Every answer is one of the two, and the connection stays open.
fn visit(mut stream: TcpStream, stop: &AtomicBool, served: &AtomicU64) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").expect("the connection is open");
        let mut answer = Vec::new();
        while !(answer.ends_with(b"old") || answer.ends_with(b"new")) {
            let count = stream.read(&mut buffer).expect("the connection is open");
            assert!(count > 0, "the server has closed the connection");
            answer.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(reply::only(&answer).status, 200);
        served.fetch_add(1, Ordering::Relaxed);
        // So that the clients leave the processors to the reloads.
        thread::sleep(PAUSE);
    }
}

#[test]
fn a_hundred_reloads_close_no_connection_and_leave_no_memory_behind() {
    each(architectures(), |arch| {
        let settings = |number: u64| {
            let changed =
                if number.is_multiple_of(2) { "root = 'old'\n" } else { "root = 'new'\nlist = true\n" };
            format!("idle-timeout = '1h'\n{changed}")
        };
        let setup = Setup::start(arch, &settings(0));
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (stream, stop, served) = (setup.server.connect(), Arc::clone(&stop), Arc::clone(&served));
                thread::spawn(move || visit(stream, &stop, &served))
            })
            .collect();
        // One that is idle all the time.
        let mut idle = setup.server.connect();
        idle.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut first = [0; 1024];
        assert!(idle.read(&mut first).unwrap() > 0);
        let mut warm_kb = 0;
        for number in 1..=RELOADS {
            setup.change(&settings(number));
            if number == RELOADS / 4 {
                warm_kb = setup.server.resident_kb();
            }
        }
        let so_far = served.load(Ordering::Relaxed);
        wait_for("clients to be served", || served.load(Ordering::Relaxed) > so_far + CLIENTS as u64);
        let listed = setup.server.get("/empty/").status;
        assert_eq!(listed, 403, "{arch}: the last settings list nothing");
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|_| panic!("{arch}: a client has failed"));
        }
        idle.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(reply::only(&read_all(&mut idle)).status, 200, "{arch}: the idle connection is open");
        wait_for("the earlier configurations to be freed", || setup.in_use() == [RELOADS + 1]);
        let kb = setup.server.resident_kb();
        // What 75 reloads left behind would be more.
        assert!(kb <= warm_kb + 4096, "{arch}: {warm_kb} KiB became {kb} KiB");
        let said = setup.server.stop();
        assert!(!said.contains("configuration stays"), "{arch}: {said}");
        if !["sped", "mt", "mp"].contains(&arch) {
            assert!(said.contains("loop_blocks=0 "), "{arch}: {said}");
        }
    });
}

#[test]
fn a_download_that_began_before_a_reload_ends_with_its_old_bytes() {
    const BYTES: usize = 20_000_000;
    for arch in architectures() {
        let setup = Setup::start(arch, "");
        let [old, new] = [site::pattern(BYTES), vec![7; BYTES]];
        site::write(&setup.path("old/large"), &old);
        site::write(&setup.path("new/large"), &new);
        let mut download = setup.server.connect();
        download.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut begun = vec![0; 1000];
        download.read_exact(&mut begun).unwrap();
        setup.change("root = 'new'\n");
        assert_eq!(setup.body("/a.txt"), "new", "{arch}");
        assert_eq!(setup.in_use(), [1, 2], "{arch}: the download holds its configuration");
        begun.extend(read_all(&mut download));
        assert!(reply::only(&begun).body == old, "{arch}: other bytes");
        wait_for("the first configuration to be freed", || setup.in_use() == [2]);
        setup.server.stop();
    }
}

#[test]
fn a_site_that_stays_the_same_keeps_its_cache() {
    for arch in ["amped", "uring", "pipelined", PROCESSES] {
        let settings = |drain: u64| format!("revalidate = '1h'\ndrain = '{drain}s'\n");
        let setup = Setup::start(arch, &settings(1));
        for _ in 0..3 {
            assert_eq!(setup.body("/a.txt"), "old");
        }
        let helper_jobs = || setup.status()["totals"]["helper_jobs"].as_u64().expect("a number");
        let before = helper_jobs();
        for number in 2..12 {
            setup.change(&settings(number));
            assert_eq!(setup.body("/a.txt"), "old");
        }
        assert_eq!(helper_jobs(), before, "{arch}: a hot file needs no helper");
        // What shapes the entries has changed, so they are made again.
        setup.change(&format!("{}[header]\nX-New = 'yes'\n", settings(2)));
        assert_eq!(setup.server.get("/a.txt").field("X-New"), Some("yes"), "{arch}");
        setup.server.stop();
    }
}
