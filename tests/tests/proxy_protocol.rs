//! The PROXY protocol in every architecture: logs and programs see the client that its header names, at TCP and Unix sockets.
//! A connection without the header is closed, and the error log says so.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PROCESSES, Server, reply, scripts, site, wait_for};

const V1: &[u8] = b"PROXY TCP4 198.51.100.9 192.0.2.1 4711 80\r\n";
/// PROXY, TCP over IPv4, 12 bytes: 203.0.113.5 and 192.0.2.1, ports 4712 and 80. Then the field about TLS.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\xcb\0\x71\x05\xc0\0\x02\x01\x12\x68\0\x50\x20\0\x05\x01\0\0\0\0";

/// Where the server says that it listens, in the order of its flags.
fn addresses(server: &Server) -> Vec<SocketAddr> {
    let said = server.said();
    said.split("http://").skip(1).filter_map(|rest| rest.split('/').next()?.parse().ok()).collect()
}

fn get(path: &str, connection: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: {connection}\r\n\r\n").into()
}

/// All that comes back until the server closes.
fn talk(mut stream: impl Read + Write, pieces: &[&[u8]]) -> Vec<u8> {
    for piece in pieces {
        // The server may have closed already.
        let _ = stream.write_all(piece);
        thread::sleep(Duration::from_millis(30));
    }
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    got
}

#[test]
fn logs_and_programs_see_the_client_that_the_header_names() {
    let (site, programs) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", programs.path().display());
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let (log, socket) = (folder.path().join("log"), folder.path().join("flash.sock"));
        let unix = format!("unix:{},proxy-protocol", socket.display());
        let flags = ["--listen", "127.0.0.1:0,proxy-protocol", "--listen", &unix, "--processes", "1"];
        let logs = ["--access-log", log.to_str().unwrap()];
        // A sandbox would be in the way of nothing here but the test's own scripts in private folders.
        let cgi = if arch == PROCESSES { vec![] } else { vec!["--cgi", &cgi] };
        let server = Server::start(arch, site.path(), &[&flags[..], &logs, &cgi].concat());
        let [plain, proxied] = addresses(&server)[..] else { panic!("{}", server.said()) };
        assert_eq!(plain, server.address);
        let connect = || flash_tests::connect(proxied);
        // In pieces, and with two requests on one connection, between which mp parks it.
        let mut lines = vec![];
        let answer =
            talk(connect(), &[&V1[..9], &V1[9..], &get("/a.txt", "keep-alive"), &get("/a.txt", "close")]);
        assert_eq!(reply::all(&answer, |_| false).len(), 2, "{arch}");
        lines.extend(["198.51.100.9", "198.51.100.9"]);
        let answer = talk(connect(), &[&[V2, &get("/a.txt", "close")].concat()]);
        assert_eq!(reply::only(&answer).status, 200, "{arch}");
        lines.push("203.0.113.5");
        let answer = talk(UnixStream::connect(&socket).unwrap(), &[V2, &get("/a.txt", "close")]);
        assert_eq!(reply::only(&answer).status, 200, "{arch}");
        lines.push("203.0.113.5");
        // A health check of the proxy itself.
        let answer = talk(connect(), &[b"PROXY UNKNOWN\r\n", &get("/a.txt", "close")]);
        assert_eq!(reply::only(&answer).status, 200, "{arch}");
        lines.push("127.0.0.1");
        if !cgi.is_empty() {
            let answer = talk(connect(), &[V2, &get("/cgi/env", "close")]);
            let variables = String::from_utf8(reply::only(&answer).body).unwrap();
            let has = |line: &str| variables.lines().any(|other| other == line);
            assert!(has("REMOTE_ADDR=203.0.113.5") && has("HTTPS=on"), "{arch}: {variables}");
            lines.push("203.0.113.5");
        }
        // A header where none is required is no request.
        assert_eq!(reply::only(&server.raw(V1)).status, 400, "{arch}");
        lines.push("127.0.0.1");
        wait_for("the log", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let mut seen: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
            let mut expected = lines.clone();
            seen.sort_unstable();
            expected.sort_unstable();
            seen == expected
        });
        server.stop();
    }
}

#[test]
fn a_connection_without_the_header_is_closed_and_the_log_says_so() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let start = |flags: &[&str]| {
            let listen =
                ["--listen", "127.0.0.1:0,proxy-protocol", "--head-timeout", "300ms", "--processes", "1"];
            let server = Server::start(arch, Path::new(site.path()), &[&listen[..], flags].concat());
            let proxied = addresses(&server)[1];
            (server, proxied)
        };
        let (server, proxied) = start(&[]);
        assert_eq!(talk(flash_tests::connect(proxied), &[&get("/a.txt", "close")]), b"", "{arch}");
        wait_for("the refusal", || {
            server.said().contains(
                "client 127.0.0.1: closed: the connection did not begin with a header of the PROXY protocol",
            )
        });
        // An incomplete header ends at the deadline.
        let began = Instant::now();
        assert_eq!(talk(flash_tests::connect(proxied), &[b"PROXY TCP4 1"]), b"", "{arch}");
        assert!(began.elapsed() < Duration::from_secs(5), "{arch}");
        server.stop();
        let (server, proxied) = start(&["--trusted-proxies", "10.0.0.0/8", "--trusted-proxy", "192.0.2.1"]);
        assert_eq!(talk(flash_tests::connect(proxied), &[V1, &get("/a.txt", "close")]), b"", "{arch}");
        wait_for("the refusal", || server.said().contains("--trusted-proxies does not name this peer"));
        server.stop();
    }
}
