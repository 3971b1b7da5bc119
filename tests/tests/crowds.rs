//! More clients than there is room for: who is let in, who gives way, and what each of them takes.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{Server, read_all, reply, site};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn more_connections_than_wanted_get_503() {
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined", "mt"] {
        // Nobody is too slow, so nobody gives way in the middle of a response.
        let flags = ["--connections-max", "3", "--send-rate-min", "0"];
        let server = Server::start(arch, site.path(), &flags);
        let mut held: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
        for stream in &mut held {
            stream.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let mut some = [0; 12];
            stream.read_exact(&mut some).unwrap();
            assert_eq!(&some, b"HTTP/1.1 200", "{arch}");
        }
        let mut one_more = server.connect();
        let _ = one_more.write_all(REQUEST);
        assert_eq!(reply::only(&read_all(&mut one_more)).status, 503, "{arch}");
        drop(held);
        thread::sleep(Duration::from_millis(1200));
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        server.stop();
    }
}

/// Asks, and reads the answer to its end.
fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"0123456789") {
        let mut some = [0; 1000];
        match stream.read(&mut some)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend(&some[..count]),
        }
    }
    Ok(())
}

#[test]
fn the_longest_idle_connection_gives_way_to_a_new_one() {
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined", "mt"] {
        let server = Server::start(arch, site.path(), &["--connections-max", "3", "--loops", "1"]);
        let mut held: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
        for number in [0, 1, 2, 0] {
            ask(&mut held[number]).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
        let mut one_more = server.connect();
        ask(&mut one_more).unwrap_or_else(|error| panic!("{arch}: {error}"));
        assert!(read_all(&mut held.remove(1)).is_empty(), "{arch}: it is closed without a word");
        for stream in held.iter_mut().chain([&mut one_more]) {
            ask(stream).unwrap_or_else(|error| panic!("{arch}: another one was closed: {error}"));
        }
        let said = server.stop();
        assert!(said.contains(" shed=0 "), "{arch}: {said}");
    }
}

/// Whichever loop they come to, and whichever has the idle ones.
#[test]
fn a_crowd_that_keeps_its_connections_keeps_nobody_out() {
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined", "mt"] {
        let server = Server::start(arch, site.path(), &["--connections-max", "4", "--loops", "3"]);
        let crowd: Vec<TcpStream> = (0..300)
            .map(|number| {
                let mut stream = server.connect();
                ask(&mut stream).unwrap_or_else(|error| panic!("{arch}, number {number}: {error}"));
                stream
            })
            .collect();
        drop(crowd);
        let said = server.stop();
        assert!(said.contains(" shed=0 "), "{arch}: {said}");
    }
}

/// With them an idle client holds a thread, or a process, besides its place among the connections.
#[test]
fn an_idle_client_gives_way_where_each_has_a_runner_of_its_own() {
    let site = site::make();
    for flags in [
        &["mt", "--threads", "2"][..],
        &["mt", "--threads", "8", "--connections-max", "2"],
        &["mp", "--processes", "2"],
    ] {
        let server = Server::start(flags[0], site.path(), &flags[1..]);
        let mut held = [server.connect(), server.connect()];
        for stream in &mut held {
            ask(stream).unwrap();
        }
        for _ in 0..2 {
            let start = Instant::now();
            let mut one_more = server.connect();
            ask(&mut one_more).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
            assert!(start.elapsed() < Duration::from_secs(3), "{flags:?}: {:?}", start.elapsed());
        }
        server.stop();
    }
}

#[test]
fn bodies_that_nobody_needs_take_no_memory() {
    const CLIENTS: usize = 400;
    let site = site::make();
    for arch in ["amped", "uring", "sped", "pipelined"] {
        let server = Server::start(arch, site.path(), &["--loops", "1"]);
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
        for stream in &mut clients {
            stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n").unwrap();
        }
        thread::sleep(Duration::from_millis(300));
        let before = server.resident_kb();
        for stream in &mut clients {
            stream.write_all(&[b'x'; 100_000]).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
        let kb = server.resident_kb().saturating_sub(before) as f64 / CLIENTS as f64;
        assert!(kb < 8.0, "{arch}: {kb} KB for each");
        drop(clients);
        server.stop();
    }
}
