//! What becomes of a slow download when the server is told to stop.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flash_tests::{ARCHITECTURES, PATIENCE, Server, read_all, reply, site};
use rustix::process::Signal;

/// A download of 20 MB, of which the client has taken the first bytes.
fn slow_download(server: &Server) -> (TcpStream, Vec<u8>) {
    let mut stream = server.connect();
    stream.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut begun = vec![0; 1000];
    stream.read_exact(&mut begun).unwrap();
    (stream, begun)
}

#[test]
fn drain_0_waits_for_as_long_as_it_takes() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let mut server = Server::start(arch, site.path(), &["--drain", "0", "--processes", "2"]);
        let (mut stream, mut got) = slow_download(&server);
        server.signal(Signal::TERM);
        assert_eq!(server.wait(Duration::from_millis(1500)), None, "{arch}: it waits");
        got.extend(read_all(&mut stream));
        assert_eq!(reply::only(&got).body.len(), 20_000_000, "{arch}");
        assert_eq!(server.wait(PATIENCE), Some(Some(0)), "{arch}");
    }
}

#[test]
fn a_response_that_was_cut_is_marked_with_the_bytes_that_left() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let log_flag = log.to_str().unwrap();
        let flags =
            ["--drain", "300ms", "--processes", "2", "--access-log", log_flag, "--log-format", "json"];
        let mut server = Server::start(arch, site.path(), &flags);
        server.get("/a.txt");
        let (mut stream, mut got) = slow_download(&server);
        server.signal(Signal::TERM);
        assert_eq!(server.wait(PATIENCE), Some(Some(0)), "{arch}");
        got.extend(read_all(&mut stream));
        let text = fs::read_to_string(&log).unwrap();
        let line = |of: &str| {
            text.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{arch}: {text}"))
        };
        let cut = line("GET /20000000.bin");
        assert!(cut.ends_with(",\"cut\":true}"), "{arch}: {cut}");
        let bytes = cut.split("\"bytes\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
        let bytes: usize = bytes.parse().unwrap();
        let head = reply::find(&got, b"\r\n\r\n").expect("a head") + 4;
        assert!(
            bytes < 20_000_000 && bytes >= got.len() - head,
            "{arch}: {bytes}, {} came",
            got.len() - head
        );
        assert!(!line("GET /a.txt").contains("cut"), "{arch}");
    }
}
