//! Clients that are slow, and clients that are too slow: downloads, programs' answers and uploads, in every architecture.

#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, Server, read_all, reply, scripts, site};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// What a client has to take, bytes per second.
const LEAST: u64 = 40 << 10;
const SLOW: u64 = 100_000;
const TOO_SLOW: u64 = LEAST / 2;
const ANSWER: &str = "printf 'Content-Type: a/b\\n\\n'; exec head -c 20000000 /dev/zero";
const COUNT: &str = "count=$(wc -c); printf 'Content-Type: text/plain\\n\\n%s\\n' $count";

/// Each test with a server of each architecture, all at once.
fn everywhere(flags: &[&str], check: impl Fn(&str, &Server) + Sync) {
    let (site, scripts) = (site::make(), tempfile::tempdir().unwrap());
    for (name, source) in [("answer", ANSWER), ("count", COUNT)] {
        scripts::script(scripts.path(), name, &format!("#!/bin/sh\n{source}\n"));
    }
    let (site, cgi) = (site.path(), format!("/cgi={}", scripts.path().display()));
    let least = LEAST.to_string();
    let all =
        [&["--cgi", &cgi, "--send-rate-min", &least, "--body-bytes-max", "16M", "--processes", "8"], flags];
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let (all, check) = (all.concat(), &check);
            scope.spawn(move || {
                let server = Server::start(arch, site, &all);
                check(arch, &server);
                server.stop();
            });
        }
    });
}

/// A client whose kernel takes no more than this before somebody reads it.
fn connect_narrowly(server: &Server, receive_buffer: usize) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, receive_buffer).unwrap();
    rustix::net::connect(&socket, &server.address).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(flash_tests::PATIENCE)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, path: &str, closes: bool) {
    let end = if closes { "Connection: close\r\n" } else { "" };
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{end}\r\n").as_bytes()).unwrap();
}

/// Reads at a steady speed for so long, or until there is an end. Returns how many bytes it was, and how it ended.
fn read_slowly(stream: &mut TcpStream, bytes_per_second: u64, time: Duration) -> (usize, Option<ErrorKind>) {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (start, mut count, mut buffer) = (Instant::now(), 0, vec![0; 1 << 20]);
    while start.elapsed() < time {
        // Which a read would only tell behind what has come before.
        if let Some(error) = stream.take_error().unwrap() {
            return (count, Some(error.kind()));
        }
        let due = (start.elapsed().as_secs_f64() * bytes_per_second as f64) as usize - count;
        match stream.read(&mut buffer[..due.min(1 << 20)]) {
            Ok(0) if due > 0 => return (count, Some(ErrorKind::UnexpectedEof)),
            Ok(some) => count += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return (count, Some(error.kind())),
        }
        thread::sleep(Duration::from_millis(50));
    }
    stream.set_read_timeout(Some(flash_tests::PATIENCE)).unwrap();
    (count, None)
}

/// The head of the response, which is read byte by byte, and how long the body is.
fn length(stream: &mut TcpStream) -> usize {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    length.map_or(20_000_000, |length| length.parse().unwrap())
}

/// Longer than any wait of the server for a client that takes nothing.
const WHILE: Duration = Duration::from_secs(25);

#[test]
fn who_takes_twice_what_is_least_gets_everything() {
    everywhere(&[], |arch, server| {
        thread::scope(|scope| {
            for (path, receive_buffer, closes) in [
                ("/20000000.bin", None, false),
                ("/20000000.bin", None, true),
                ("/3000000.bin", Some(4096), false),
                ("/3000000.bin", Some(4096), true),
                ("/cgi/answer", None, true),
            ] {
                scope.spawn(move || {
                    let what = format!("{arch}: {path}, {receive_buffer:?}, {closes}");
                    let mut stream = match receive_buffer {
                        Some(bytes) => connect_narrowly(server, bytes),
                        None => server.connect(),
                    };
                    ask(&mut stream, path, closes);
                    let length = length(&mut stream);
                    let (slowly, end) = read_slowly(&mut stream, SLOW, WHILE);
                    assert_eq!(end, None, "{what}: {slowly} bytes");
                    let rest = match closes {
                        true => read_all(&mut stream).len(),
                        false => stream
                            .read_exact(&mut vec![0; length - slowly])
                            .map(|()| length - slowly)
                            .unwrap(),
                    };
                    // A program's answer is in chunks.
                    assert!(slowly + rest >= length, "{what}: {slowly} and {rest} bytes of {length}");
                });
            }
            // As curl does it: much at once, and then a pause until that is what its speed allows.
            scope.spawn(move || {
                let mut stream = server.connect();
                ask(&mut stream, "/20000000.bin", true);
                let length = length(&mut stream);
                for _ in 0..2 {
                    stream.read_exact(&mut vec![0; 1_200_000]).unwrap();
                    thread::sleep(WHILE / 2);
                }
                assert_eq!(read_all(&mut stream).len(), length - 2_400_000, "{arch}");
            });
            scope.spawn(move || {
                let (got, _) = upload(server, SLOW, 2_500_000);
                assert!(got.ends_with(b"2500000\n"), "{arch}: {}", String::from_utf8_lossy(&got));
            });
        });
    });
}

#[test]
fn who_takes_half_of_what_is_least_is_cut_off() {
    everywhere(&[], |arch, server| {
        thread::scope(|scope| {
            for (path, closes) in [
                ("/20000000.bin", false),
                ("/20000000.bin", true),
                ("/3000000.bin", false),
                ("/3000000.bin", true),
                ("/cgi/answer", true),
            ] {
                scope.spawn(move || {
                    let mut stream = connect_narrowly(server, 4096);
                    ask(&mut stream, path, closes);
                    let start = Instant::now();
                    length(&mut stream);
                    let (got, end) = read_slowly(&mut stream, TOO_SLOW, Duration::from_secs(35));
                    let took = start.elapsed();
                    let what = format!("{arch}: {path}, {closes}: {got} bytes in {took:?}");
                    assert_eq!(end, Some(ErrorKind::ConnectionReset), "{what}");
                    assert!((8..30).contains(&took.as_secs()), "{what}");
                });
            }
            scope.spawn(move || {
                let (got, took) = upload(server, TOO_SLOW, 2_500_000);
                assert_eq!(reply::only(&got).status, 408, "{arch}");
                assert!((8..30).contains(&took.as_secs()), "{arch}: {took:?}");
            });
        });
    });
}

/// Sends a body to a program, and returns what comes back, and when that began.
fn upload(server: &Server, bytes_per_second: u64, bytes: usize) -> (Vec<u8>, Duration) {
    let mut stream = server.connect();
    let head = format!("POST /cgi/count HTTP/1.0\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (start, mut sent) = (Instant::now(), 0);
    let mut byte = [0];
    while sent < bytes && stream.peek(&mut byte).is_err() {
        let due = (start.elapsed().as_secs_f64() * bytes_per_second as f64) as usize;
        let some = due.min(bytes) - sent;
        stream.write_all(&vec![b'x'; some]).unwrap();
        sent += some;
        thread::sleep(Duration::from_millis(50));
    }
    let took = start.elapsed();
    stream.set_read_timeout(Some(flash_tests::PATIENCE)).unwrap();
    (read_all(&mut stream), took)
}

/// Bytes that drip do not keep a thread for longer than any other runner waits.
#[test]
fn who_drips_has_the_same_time_everywhere() {
    const PAUSE: Duration = Duration::from_millis(200);
    everywhere(&["--head-timeout", "2s"], |arch, server| {
        let send_until_answered = |head: &[u8]| {
            let mut stream = server.connect();
            stream.write_all(head).unwrap();
            stream.set_read_timeout(Some(PAUSE)).unwrap();
            let start = Instant::now();
            while stream.peek(&mut [0]).is_err() && start.elapsed() < Duration::from_secs(20) {
                stream.write_all(b"x").unwrap();
            }
            let took = start.elapsed();
            stream.set_read_timeout(Some(flash_tests::PATIENCE)).unwrap();
            (reply::only(&read_all(&mut stream)).status, took.as_secs())
        };
        thread::scope(|scope| {
            scope.spawn(move || {
                let (status, seconds) = send_until_answered(b"GET /");
                assert!(status == 408 && (1..5).contains(&seconds), "{arch}: {status} after {seconds} s");
            });
            for path in ["/a.txt", "/cgi/count"] {
                scope.spawn(move || {
                    let head = format!("GET {path} HTTP/1.0\r\nContent-Length: 1000000\r\n\r\n");
                    let (status, seconds) = send_until_answered(head.as_bytes());
                    assert!(
                        status == 408 && (9..14).contains(&seconds),
                        "{arch}: {status} after {seconds} s"
                    );
                });
            }
            scope.spawn(move || {
                let mut stream = connect_narrowly(server, 4096);
                ask(&mut stream, "/20000000.bin", false);
                let (got, end) = read_slowly(&mut stream, 10, Duration::from_secs(20));
                assert_eq!(end, Some(ErrorKind::ConnectionReset), "{arch}: {got} bytes");
            });
        });
    });
}
