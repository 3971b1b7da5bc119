//! Clients that do nothing hold no program: those that do not finish their request, and those that do not read.

use std::io::{Read, Write};
use std::net::TcpStream;

use flash_tests::reply;
use flash_tests::{ARCHITECTURES, Server, read_all, scripts, site};

/// As many programs as may run at once.
const PROGRAMS: usize = 3;
/// More than the kernel takes for a client, and less than the spool does.
const NUMBERS: usize = 3_000_000;

fn start(arch: &str, flags: &[&str], check: impl Fn(&Server)) {
    let (site, scripts) = (site::make(), scripts::make());
    let count = format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; exec seq {NUMBERS}");
    scripts::script(scripts.path(), "count", &count);
    let cgi = format!("/cgi={}", scripts.path().display());
    let programs = PROGRAMS.to_string();
    // Other tests write to the same disk, and a part that is written too late holds its program.
    let patient = ["--program-deadline", "10m", "--disk-deadline", "10m"];
    let all = [&["--cgi", &cgi, "--cgi-max", &programs, "--processes", "12"][..], &patient].concat();
    let server = Server::start(arch, site.path(), &[&all[..], flags].concat());
    check(&server);
    server.stop();
}

#[test]
fn unfinished_uploads_hold_no_program() {
    for arch in ARCHITECTURES {
        start(arch, &[], |server| {
            let mut silent = Vec::new();
            for _ in 0..2 * PROGRAMS {
                let mut client = server.connect();
                client
                    .write_all(b"POST /cgi/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
                    .unwrap();
                client.write_all(&[b'x'; 400_000]).unwrap();
                silent.push(client);
            }
            // An upload as long as this one takes its time, and gets its answer.
            let mut slow = server.connect();
            slow.write_all(b"POST /cgi/echo HTTP/1.0\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n").unwrap();
            for part in 0..10 {
                assert_eq!(server.get("/cgi/perl").body, b"Perl", "{arch}: after part {part}");
                slow.write_all(&[b'y'; 100_000]).unwrap();
            }
            assert!(reply::only(&read_all(&mut slow)).body == [b'y'; 1_000_000]);
        });
    }
}

#[test]
fn clients_that_read_nothing_hold_no_program() {
    for arch in ARCHITECTURES {
        start(arch, &["--program-send-timeout", "1s"], |server| {
            let flooded: Vec<TcpStream> = (0..PROGRAMS)
                .map(|_| {
                    let mut client = server.connect();
                    client.write_all(b"GET /cgi/flood HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                    // It reads much, which is worth minutes to a client that holds no program.
                    client.read_exact(&mut vec![0; 1_000_000]).unwrap();
                    client
                })
                .collect();
            assert_eq!(server.get("/cgi/perl").body, b"Perl", "{arch}");
            drop(flooded);
        });
    }
}

#[test]
fn a_response_is_taken_off_its_programs_hands_and_arrives_whole() {
    let expected: String = (1..=NUMBERS).map(|number| format!("{number}\n")).collect();
    for (arch, memory) in
        ARCHITECTURES.map(|arch| (arch, "64M")).into_iter().chain([("amped", "0"), ("pipelined", "0")])
    {
        // No program is ended here.
        start(arch, &["--program-send-timeout", "10m", "--program-buffer-bytes", memory], |server| {
            let mut stalled: Vec<TcpStream> = (0..PROGRAMS)
                .map(|_| {
                    let mut client = server.connect();
                    client.write_all(b"GET /cgi/count HTTP/1.0\r\nHost: h\r\n\r\n").unwrap();
                    client
                })
                .collect();
            assert_eq!(server.get("/cgi/perl").body, b"Perl", "{arch}, {memory}");
            for client in &mut stalled {
                let body = reply::only(&read_all(client)).body;
                assert!(body == expected.as_bytes(), "{arch}, {memory}: {} bytes", body.len());
            }
        });
    }
}
