//! The workers of mt and mp, threads and processes: they grow on demand up to a limit, retire when idle, and idle connections
//! hold none.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{PATIENCE, Server, family, read_all, reply, site, wait_for};
use rustix::process::Signal;

/// Each architecture, with few workers.
const FEW: [[&str; 5]; 2] =
    [["mt", "--threads", "4", "--threads-max", "8"], ["mp", "--processes", "4", "--processes-max", "8"]];
const ARCHITECTURES: [&str; 2] = ["mt", "mp"];
/// Each architecture, and its workers at the start.
const CROWDED: [(&str, usize); 2] = [("mt", 64), ("mp", 32)];
const DOWNLOAD: &[u8] = b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// What waits for the disk that hangs waits so long.
const DISK_DEADLINE: Duration = Duration::from_secs(10);

fn ask(stream: &mut TcpStream, what: &str) {
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_answer(stream, what);
}

fn read_answer(stream: &mut TcpStream, what: &str) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"0123456789") {
        let mut some = [0; 1000];
        let count = stream.read(&mut some).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(count > 0, "{what}: closed after {}", String::from_utf8_lossy(&answer));
        answer.extend(&some[..count]);
    }
}

/// How many threads or processes serve connections.
fn workers(server: &Server, arch: &str) -> usize {
    match arch {
        "mt" => {
            let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
            let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
            threads.filter_map(name).filter(|name| name == "worker\n").count()
        }
        _ => family::of(server)
            .iter()
            .filter(|process| process.name().starts_with("worker-") && process.lives())
            .count(),
    }
}

#[test]
fn idle_connections_hold_no_worker() {
    let site = site::make();
    for [arch, flags @ ..] in FEW {
        let server = Server::start(arch, site.path(), &flags);
        let mut kept: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
        kept.iter_mut().for_each(|stream| ask(stream, arch));
        let start = Instant::now();
        ask(&mut server.connect(), arch);
        assert!(start.elapsed() < Duration::from_secs(10), "{arch}: {:?}", start.elapsed());
        // A process that reads half a head waits for the rest of it.
        let parked = if arch == "mp" { &mut kept[..0] } else { &mut kept[..] };
        for stream in &mut *parked {
            // The rest comes after a pause that parks the connection.
            stream.write_all(b"GET /a.txt HTTP/1.1\r\n").unwrap();
        }
        thread::sleep(Duration::from_millis(50));
        for stream in parked {
            stream.write_all(b"Host: h\r\n\r\n").unwrap();
            read_answer(stream, arch);
        }
        kept.iter_mut().for_each(|stream| ask(stream, arch));
        assert!(workers(&server, arch) <= 8, "{arch}: {}", workers(&server, arch));
        drop(kept);
        let said = server.stop();
        assert!(arch == "mp" || said.contains(" shed=0 "), "{arch}: {said}");
        assert!(arch == "mp" || said.contains("requests=601 connections=201 "), "{arch}: {said}");
    }
}

#[test]
fn idle_connections_are_closed_in_time() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server =
            Server::start(arch, site.path(), &["--idle-timeout", "500ms", "--head-timeout", "300ms"]);
        let (mut idle, mut mute) = (server.connect(), server.connect());
        ask(&mut idle, arch);
        let start = Instant::now();
        assert!(read_all(&mut idle).is_empty(), "{arch}");
        let lasted = start.elapsed();
        assert!((400..2_000).contains(&lasted.as_millis()), "{arch}: {lasted:?}");
        // In the middle of a head, it gets an answer.
        mute.write_all(b"GET /a.txt HT").unwrap();
        assert_eq!(reply::only(&read_all(&mut mute)).status, 408, "{arch}");
        server.stop();
    }
}

#[test]
fn there_are_never_more_workers_than_the_most_and_connections_wait_for_them() {
    let site = site::make();
    for [arch, flags @ ..] in FEW {
        let server = Server::start(arch, site.path(), &flags);
        wait_for("the first workers", || workers(&server, arch) == 4);
        let mut downloads: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
        downloads.iter_mut().for_each(|stream| stream.write_all(DOWNLOAD).unwrap());
        wait_for("all workers", || workers(&server, arch) == 8);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(workers(&server, arch), 8, "{arch}");
        for stream in &mut downloads {
            assert_eq!(reply::only(&read_all(stream)).body.len(), 20_000_000, "{arch}");
        }
        ask(&mut server.connect(), arch);
        server.stop();
    }
}

#[test]
fn a_crowd_gets_workers_at_once_and_idle_ones_retire() {
    const CROWD: usize = 150;
    let site = site::make();
    thread::scope(|scope| {
        for (arch, least) in CROWDED {
            let site = &site;
            scope.spawn(move || {
                let server = Server::start(arch, site.path(), &[]);
                let start = Instant::now();
                let mut downloads: Vec<TcpStream> = (0..CROWD).map(|_| server.connect()).collect();
                downloads.iter_mut().for_each(|stream| stream.write_all(DOWNLOAD).unwrap());
                for stream in &mut downloads {
                    stream.read_exact(&mut [0; 1000]).unwrap();
                }
                assert!(start.elapsed() < Duration::from_secs(10), "{arch}: {:?}", start.elapsed());
                assert!(workers(&server, arch) >= CROWD, "{arch}: {}", workers(&server, arch));
                drop(downloads);
                wait_for("their end", || workers(&server, arch) == least);
                ask(&mut server.connect(), arch);
                server.stop();
            });
        }
    });
}

#[test]
fn clients_of_a_slow_disk_do_not_keep_a_hot_file_waiting() {
    const COLD: usize = 80;
    if let Some(missing) = flash_slowdisk::missing() {
        return eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
    }
    let folder = tempfile::tempdir().unwrap();
    site::write(&folder.path().join("a.txt"), b"0123456789");
    let cold = |number: usize| format!("/cold-{number}.txt");
    for number in 0..COLD {
        site::write(&folder.path().join(&cold(number)[1..]), b"cold");
    }
    for arch in ARCHITECTURES {
        let mountpoint = tempfile::tempdir().unwrap();
        let disk = SlowDisk::mount(folder.path(), mountpoint.path(), "").unwrap();
        let deadline = format!("{}s", DISK_DEADLINE.as_secs());
        let flags = ["--revalidate", "100s", "--disk-deadline", &deadline];
        let server = Server::start(arch, disk.mountpoint(), &flags);
        let mut kept = server.connect();
        ask(&mut kept, arch);
        disk.rule("hang prefix /cold").unwrap();
        let clients: Vec<TcpStream> = (0..COLD)
            .map(|number| {
                let mut stream = server.connect();
                write!(stream, "GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", cold(number))
                    .unwrap();
                stream
            })
            .collect();
        wait_for("the cold clients", || disk.counters().hung as usize >= COLD);
        for stream in [&mut kept, &mut server.connect()] {
            let start = Instant::now();
            ask(stream, arch);
            assert!(start.elapsed() < DISK_DEADLINE / 2, "{arch}: {:?}", start.elapsed());
        }
        disk.clear();
        for mut stream in clients {
            assert_eq!(reply::only(&read_all(&mut stream)).body, b"cold", "{arch}");
        }
        server.stop();
    }
}

#[test]
fn a_server_that_stops_closes_idle_connections_at_once() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let mut server = Server::start(arch, site.path(), &["--drain", "60s"]);
        let mut kept: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
        kept.iter_mut().for_each(|stream| ask(stream, arch));
        thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        server.signal(Signal::TERM);
        for stream in &mut kept {
            assert!(read_all(stream).is_empty(), "{arch}");
        }
        assert_eq!(server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", server.said());
        assert!(start.elapsed() < Duration::from_secs(30), "{arch}: {:?}", start.elapsed());
    }
}

#[test]
fn workers_that_are_killed_leave_idle_connections_alone() {
    let site = site::make();
    let server = Server::start("mp", site.path(), &["--processes", "2", "--processes-max", "2"]);
    let mut kept: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|stream| ask(stream, "mp"));
    // Until all of them are parked.
    thread::sleep(Duration::from_millis(200));
    let before: Vec<_> =
        family::of(&server).into_iter().filter(|process| process.name().starts_with("worker-")).collect();
    assert_eq!(before.len(), 2);
    before.iter().for_each(|worker| worker.kill());
    wait_for("their end", || !before.iter().any(|worker| worker.lives()));
    kept.iter_mut().for_each(|stream| ask(stream, "after the end of its worker"));
    server.stop();
}
