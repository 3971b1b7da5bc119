//! A client that floods the server with work for the disk makes no other client wait for long, and none is refused for it.

#![forbid(unsafe_code)]

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_slowdisk::SlowDisk;
use flash_tests::{PROCESSES, Server, Stop, read_all, reply, site};
use tempfile::TempDir;

/// Who floods, with the number of a request.
type Flooder = fn(usize) -> Ipv4Addr;

const ONE: Flooder = |_| Ipv4Addr::new(127, 0, 0, 2);
/// Each comes twice and never again.
const STRANGERS: Flooder =
    |request| Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + request as u32 / 2);
const VISITED: usize = 40;
const QUEUED_MAX: usize = 16;
/// Of the flood, during one visit.
const PASSED_MAX: usize = 12;

fn status_for(server: &Server, client: Ipv4Addr, path: &str) -> u16 {
    let mut stream = server.connect_from(client);
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    reply::only(&read_all(&mut stream)).status
}

#[test]
fn a_flood_from_one_client_is_refused_before_another_client_is() {
    assert_visits_go_on_beside(ONE);
}

#[test]
fn strangers_from_any_number_of_addresses_are_refused_before_a_client_is_that_comes_again() {
    assert_visits_go_on_beside(STRANGERS);
}

fn assert_visits_go_on_beside(flooder: Flooder) {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    for arch in ["amped", PROCESSES, "uring", "pipelined"] {
        let (behind, point) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for n in 0..VISITED {
            site::write(&behind.path().join(format!("{n}.txt")), n.to_string().as_bytes());
        }
        let disk = SlowDisk::mount(behind.path(), point.path(), "lookup delay fixed:10ms").unwrap();
        let flags = ["--helpers-max", "2", "--helper-queue-max", &QUEUED_MAX.to_string()];
        let server = Server::start(arch, point.path(), &flags);
        // Somebody who has been here before.
        (0..VISITED).for_each(|n| _ = status_for(&server, Ipv4Addr::LOCALHOST, &format!("/none-{n}")));
        let (stop, names) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (statuses, mut meanwhile) = thread::scope(|scope| {
            for _ in 0..48 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let name = names.fetch_add(1, Ordering::Relaxed);
                        let is_refused =
                            status_for(&server, flooder(name), &format!("/missing-{name}")) == 503;
                        if is_refused { &refused } else { &served }.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let end = Stop(&stop);
            // For each visit, the answers that the flood got.
            let mut meanwhile = Vec::new();
            // The queue is full by then.
            thread::sleep(Duration::from_millis(300));
            let visit = |n| {
                let before = served.load(Ordering::Relaxed);
                let status = status_for(&server, Ipv4Addr::LOCALHOST, &format!("/{n}.txt"));
                meanwhile.push(served.load(Ordering::Relaxed) - before);
                status
            };
            let statuses: Vec<u16> = (0..VISITED).map(visit).collect();
            drop(end);
            (statuses, meanwhile)
        });
        assert!(refused.into_inner() > 0, "{arch}: the flood is one");
        assert!(statuses.iter().all(|status| *status == 200), "{arch}: {statuses:?}");
        // Each job of a visit waits for those that the two helpers have, and for one of the flood's. In one queue for all it would
        // wait for the whole queue. Busy processors delay some visits, so the median counts.
        meanwhile.sort_unstable();
        assert!(meanwhile[VISITED / 2] < PASSED_MAX, "{arch}: {meanwhile:?}");
        server.stop();
        drop(disk);
    }
}
