//! Clients that close their side after their request, which is how some ask, and clients that are gone.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, read_all, reply, scripts, site};
use rustix::net::sockopt::set_socket_linger;

const CLIENTS: usize = 8;

/// A folder of scripts, one of which takes its time.
fn folder() -> tempfile::TempDir {
    let folder = scripts::make();
    let late = "#!/bin/sh\nsleep 0.5\nprintf 'Content-Type: text/plain\\n\\nlate: '; cat";
    scripts::script(folder.path(), "late", late);
    folder
}

/// How many programs run at this moment: they begin in the folder of their script.
fn programs(scripts: &Path) -> usize {
    let scripts = scripts.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let runs =
        |process: &fs::DirEntry| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == scripts);
    processes.filter(runs).count()
}

fn wait_for_programs(what: &str, is_so: impl Fn(usize) -> bool, scripts: &Path) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so(programs(scripts)) {
        assert!(Instant::now() < give_up, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// As `nc -N` and some health checkers do it: `shutdown(SHUT_WR)` behind the request, at once or while the program runs.
#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    let (site, scripts) = (site::make(), folder());
    let socket = scripts.path().join("socket");
    let at_socket = format!("unix:{}", socket.display());
    let mounts = ["cgi", "direct"].map(|name| format!("/{name}={}", scripts.path().display()));
    let processes = (2 * CLIENTS).to_string();
    for arch in ARCHITECTURES {
        let flags =
            ["--cgi", &mounts[0], "--cgi-direct", &mounts[1], "--processes", &processes, "--threads", "32"];
        let server = Server::start(arch, site.path(), &[&flags[..], &["--listen", &at_socket]].concat());
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (server, socket) = (&server, &socket);
                scope.spawn(move || {
                    let folder = if client % 4 == 1 { "direct" } else { "cgi" };
                    let length = if folder == "cgi" { 3 } else { 0 };
                    let method = if folder == "cgi" { "POST" } else { "GET" };
                    let request = format!(
                        "{method} /{folder}/late HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\nabc"
                    );
                    let request = &request.as_bytes()[..request.len() - 3 + length];
                    let pause = Duration::from_millis(if client % 2 == 0 { 0 } else { 200 });
                    let bytes = if client % 4 == 3 {
                        let mut stream = UnixStream::connect(socket).unwrap();
                        stream.write_all(request).unwrap();
                        thread::sleep(pause);
                        stream.shutdown(Shutdown::Write).unwrap();
                        let mut bytes = Vec::new();
                        stream.read_to_end(&mut bytes).map(|_| bytes).unwrap()
                    } else {
                        let mut stream = server.connect();
                        stream.write_all(request).unwrap();
                        thread::sleep(pause);
                        stream.shutdown(Shutdown::Write).unwrap();
                        read_all(&mut stream)
                    };
                    let body = match folder {
                        "cgi" => reply::only(&bytes).body,
                        // The program ends its lines in LF.
                        _ => bytes.get(bytes.len().saturating_sub(6)..).unwrap_or_default().to_vec(),
                    };
                    let expected = if folder == "cgi" { "late: abc" } else { "late: " };
                    assert_eq!(String::from_utf8_lossy(&body), expected, "{arch}: client {client}");
                });
            }
        });
        server.stop();
    }
}

/// Its kernel refuses what comes (RST), or its Unix socket is closed in both directions.
#[test]
fn a_client_that_is_gone_ends_its_program() {
    let (site, scripts) = (site::make(), folder());
    let cgi = format!("/cgi={}", scripts.path().display());
    let socket = scripts.path().join("socket");
    let at_socket = format!("unix:{}", socket.display());
    for arch in ARCHITECTURES {
        let flags = ["--processes", "4", "--program-deadline", "10m", "--cgi", &cgi, "--listen", &at_socket];
        let server = Server::start(arch, site.path(), &flags);
        let begin = |name: &str, client: &mut dyn Write| {
            write!(client, "GET /cgi/{name} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            wait_for_programs("it runs", |count| count > 0, scripts.path());
        };
        let is_ended = || wait_for_programs("it is ended", |count| count == 0, scripts.path());
        for closes_first in [false, true] {
            let mut client = server.connect();
            begin("silent", &mut client);
            if closes_first {
                client.shutdown(Shutdown::Write).unwrap();
                thread::sleep(Duration::from_millis(300));
                assert!(programs(scripts.path()) > 0, "{arch}: it may still wait for its answer");
            }
            reset(client);
            is_ended();
        }
        // One that closes everything looks like one that waits, until something is sent to it.
        let mut client = server.connect();
        begin("flood", &mut client);
        client.read_exact(&mut [0; 100_000]).unwrap();
        drop(client);
        is_ended();
        let mut client = UnixStream::connect(&socket).unwrap();
        begin("stubborn", &mut client);
        drop(client);
        is_ended();
        server.stop();
    }
}

/// Leaves with a reset.
fn reset(client: TcpStream) {
    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
}

/// A client that closes everything and hears of nothing more costs its program's time, but not for long.
#[test]
fn a_program_whose_client_has_closed_is_soon_ended() {
    let (site, scripts) = (site::make(), folder());
    let cgi = format!("/cgi={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let flags =
            ["--processes", "4", "--program-deadline", "10m", "--program-fin-timeout", "1s", "--cgi", &cgi];
        let server = Server::start(arch, site.path(), &flags);
        let mut client = server.connect();
        client.write_all(b"GET /cgi/silent HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        wait_for_programs("it runs", |count| count > 0, scripts.path());
        drop(client);
        wait_for_programs("it is ended", |count| count == 0, scripts.path());
        let mut client = server.connect();
        client.write_all(b"GET /cgi/silent HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reply::only(&read_all(&mut client)).status, 504, "{arch}");
        server.stop();
    }
}
