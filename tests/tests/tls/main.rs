//! TLS, with every architecture: the same bytes as without it, and what goes wrong on the way.

#![forbid(unsafe_code)]

mod bad_clients;
mod certificate_compression;
mod certificates;
mod client;
mod client_certificates;
mod conformance;
mod early_data;
mod half_open;
mod http2_clients;
mod programs;
mod real_clients;
mod reload;
mod renewal;

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use client::{Secured, ask, stream};
use flash_tests::{Server, each, reply, site};
use rustls::HandshakeKind;

const CLOSE: &str = "Host: localhost\r\nConnection: close\r\n\r\n";

#[test]
fn the_same_bytes_as_without_tls() {
    let folder = site::make();
    let requests = [
        format!("GET /a.txt HTTP/1.1\r\n{CLOSE}"),
        format!("HEAD /3000000.bin HTTP/1.1\r\n{CLOSE}"),
        format!("GET /3000000.bin HTTP/1.1\r\n{CLOSE}"),
        format!("GET /1048577.bin HTTP/1.1\r\nRange: bytes=5-900000,1048570-\r\n{CLOSE}"),
        format!("GET /none HTTP/1.1\r\n{CLOSE}"),
        format!(
            "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\nGET /3000000.bin HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\n{CLOSE}"
        ),
        format!(
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345GET /a.txt HTTP/1.1\r\n{CLOSE}"
        ),
        "NONSENSE\r\n\r\n".into(),
    ];
    each(|arch| {
        let plain = Server::start(arch, folder.path(), &[]);
        let secured = Secured::start(arch, folder.path(), &[]);
        for request in &requests {
            let expected = plain.raw(request.as_bytes());
            let bytes = secured.raw(request.as_bytes());
            assert!(
                reply::undated(&bytes) == reply::undated(&expected),
                "{arch}: {request}: {} and {} bytes",
                bytes.len(),
                expected.len()
            );
        }
        plain.stop();
        secured.server.stop();
    });
}

#[test]
fn files_that_leave_without_a_copy_are_the_same() {
    let folder = site::make();
    for flags in [&["--zero-copy", "on", "--file-cache-bytes", "0"][..], &["--file-cache", "mapped"]] {
        let plain = Server::start("amped", folder.path(), &[]);
        let secured = Secured::start("amped", folder.path(), flags);
        let request = format!("GET /3000000.bin HTTP/1.1\r\n{CLOSE}");
        for _ in 0..3 {
            let (bytes, expected) = (secured.raw(request.as_bytes()), plain.raw(request.as_bytes()));
            assert!(reply::undated(&bytes) == reply::undated(&expected), "{flags:?}: {}", bytes.len());
        }
        plain.stop();
        secured.server.stop();
    }
}

#[test]
fn a_client_that_reads_slowly_gets_it_all() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let mut stream = secured.connect();
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream.sock, 8 << 10).expect("an option");
        stream.write_all(format!("GET /3000000.bin HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 100_000]);
        loop {
            thread::sleep(Duration::from_millis(2));
            match stream.read(&mut piece).expect("more") {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
        let reply = reply::only(&bytes);
        assert!(reply.body == std::fs::read(folder.path().join("3000000.bin")).unwrap(), "{arch}");
        secured.server.stop();
    });
}

#[test]
fn a_kept_connection_serves_many_requests_and_may_be_idle_between_them() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let mut stream = secured.connect();
        for number in 0..5 {
            // Longer than a thread or a process waits for its client.
            thread::sleep(Duration::from_millis(if number == 3 { 100 } else { 0 }));
            stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"0123456789") {
                let mut piece = [0; 1000];
                let count = stream.read(&mut piece).expect("a response");
                assert!(count > 0, "{arch}: it ended after {number}");
                bytes.extend_from_slice(&piece[..count]);
            }
        }
        drop(stream);
        secured.server.stop();
    });
}

#[test]
fn sessions_resume_in_every_loop_and_every_process() {
    let folder = site::make();
    let request = format!("GET /a.txt HTTP/1.1\r\n{CLOSE}");
    each(|arch| {
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let flags: &[&str] = match arch {
                "mp" => &["--processes", "4"],
                "mt" => &[],
                _ => &["--loops", "3"],
            };
            let secured = Secured::start(arch, folder.path(), flags);
            let config = secured.authority.client_of(&[version]);
            let kinds: Vec<HandshakeKind> = (0..10)
                .map(|_| ask(&secured.server, &config, "localhost", &request).expect("a response").0)
                .collect();
            assert_ne!(kinds[0], HandshakeKind::Resumed, "{arch}");
            assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{arch}: {kinds:?}");
            secured.server.stop();
        }
    });
}

#[test]
fn more_clients_than_processes_take_turns() {
    let folder = site::make();
    let secured = Secured::start("mp", folder.path(), &["--processes", "2", "--processes-max", "2"]);
    let config = secured.authority.client();
    // Each keeps its connection, which its process cannot leave to another one.
    let mut kept = Vec::new();
    let begun = Instant::now();
    for _ in 0..5 {
        let mut stream = stream(&secured.server, &config, "localhost");
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
        let mut piece = [0; 1000];
        assert!(stream.read(&mut piece).expect("a response") > 0);
        kept.push(stream);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    secured.server.stop();
}

#[test]
fn an_idle_connection_holds_little_memory() {
    let folder = site::make();
    for arch in ["amped", "uring"] {
        let secured = Secured::start(arch, folder.path(), &["--loops", "1"]);
        let config = secured.authority.client();
        let connect = || {
            let mut stream = stream(&secured.server, &config, "localhost");
            stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
            assert!(stream.read(&mut [0; 1000]).expect("a response") > 0);
            stream
        };
        const COUNT: u64 = 400;
        // The first ones grow what stays.
        let _first: Vec<_> = (0..COUNT).map(|_| connect()).collect();
        let before = secured.server.resident_kb();
        let _kept: Vec<_> = (0..COUNT).map(|_| connect()).collect();
        let bytes = (secured.server.resident_kb().saturating_sub(before) << 10) / COUNT;
        println!("{arch}: {bytes} bytes for each idle connection");
        assert!(bytes < 8 << 10, "{arch}: {bytes} bytes");
        secured.server.stop();
    }
}
