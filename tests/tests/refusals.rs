//! What the access log says of requests that were none: as much of them as was read, and why they were refused.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;

use flash_tests::{ARCHITECTURES, Server, read_all, reply, site};
use rustix::process::Signal;

#[test]
fn refused_requests_are_logged_with_their_lines_and_reasons() {
    let site = site::make();
    let folder = tempfile::tempdir().unwrap();
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(9_000));
    let fields = format!("GET /m HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(101));
    let hello = b"\x16\x03\x01\x02";
    // The request, its status, its line in both formats, and the reason.
    let cases: [(&[u8], u16, [&str; 2], &str); 6] = [
        (b"GET /a.txt HTTP/1.1\r\n\r\n", 400, ["GET /a.txt HTTP/1.1"; 2], "no Host"),
        (b"GET / \"HTTP\"\r\n\r\n", 400, [r#"GET / \"HTTP\""#; 2], "malformed version"),
        (long.as_bytes(), 414, [&long[..1024]; 2], "the target is too long"),
        (fields.as_bytes(), 431, ["GET /m HTTP/1.1"; 2], "too many fields"),
        // What a client that speaks TLS begins with.
        (
            hello,
            400,
            [r"\x16\x03\x01\x02", r"\u0016\u0003\u0001\u0002"],
            "the method is not a token and a space",
        ),
        (b"GET /slow HTTP/1.1\r\nHo", 408, ["GET /slow HTTP/1.1"; 2], "the head came too slowly"),
    ];
    for arch in ARCHITECTURES {
        for format in ["combined", "json"] {
            let log = folder.path().join(format!("{arch}-{format}.log"));
            let flags = ["--access-log", log.to_str().unwrap(), "--log-format", format];
            let flags = [&flags[..], &["--head-timeout", "500ms", "--processes", "2"]].concat();
            let server = Server::start(arch, site.path(), &flags);
            for (request, status, ..) in cases {
                let mut stream = server.connect();
                stream.write_all(request).unwrap();
                assert_eq!(reply::only(&read_all(&mut stream)).status, status, "{arch}");
            }
            server.stop();
            let lines = fs::read_to_string(&log).unwrap();
            assert_eq!(lines.lines().count(), cases.len(), "{arch}: {lines}");
            for (_, status, [combined, json], reason) in cases {
                let is_it = |line: &&str| match format {
                    "combined" => line.contains(&format!("] \"{combined}\" {status} ")),
                    _ => {
                        let (request, reason) =
                            (format!("\"request\":\"{json}\""), format!("\"reason\":\"{reason}\"}}"));
                        line.contains(&request)
                            && line.contains(&format!("\"status\":{status},"))
                            && line.ends_with(&reason)
                    }
                };
                assert_eq!(lines.lines().filter(is_it).count(), 1, "{arch}, {format}, {combined}: {lines}");
            }
        }
    }
}

/// The page for the client says nothing. The error log says which of the reasons it was, once a minute.
#[test]
fn the_error_log_says_why_a_request_was_refused() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    let site = tempfile::tempdir().unwrap();
    let root = site.path();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), root.join("link")).unwrap();
    std::fs::create_dir(root.join("bare")).unwrap();
    std::fs::write(root.join("run.php"), "<?php").unwrap();
    let flags = ["--app", ".php=/bin/false", "--no-programs", "/run.php", "--processes", "4"];
    for arch in ARCHITECTURES {
        let server = Server::start(arch, root, &[&flags[..], &["--body-bytes-max", "10"]].concat());
        for _ in 0..3 {
            for path in ["/link", "/bare/", "/run.php"] {
                let reply = server.get(path);
                let page = String::from_utf8(reply.body).unwrap();
                assert_eq!(reply.status, 403, "{arch} {path}");
                for told in ["link", "index", "program"] {
                    assert!(!page.contains(told), "{arch}: {page}");
                }
            }
        }
        let large = "Content-Length: 11\r\n\r\n12345678901";
        let chunked = "Transfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n0\r\n\r\n";
        for body in [large, chunked] {
            let request = format!("GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{body}");
            assert_eq!(reply::only(&server.raw(request.as_bytes())).status, 413, "{arch}: {body}");
        }
        let said = server.stop();
        for line in [
            "/link: 403: a symbolic link leads out of the folder that is served",
            "/bare/: 403: the folder has no index file",
            "/run.php: 403: it is a program, and no program runs there",
            "/large: 413: the request's body is larger than --body-bytes-max",
        ] {
            // Each process of mp has a log of its own.
            let count = said.matches(line).count();
            assert!((1..=if arch == "mp" { 4 } else { 1 }).contains(&count), "{arch}: {line}: {said}");
        }
    }
}

#[test]
fn standard_error_is_json_from_the_first_line_to_the_last() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--error-log-format", "json", "--processes", "2"]);
        server.get("/a.txt");
        server.signal(Signal::HUP);
        let said = server.stop();
        let message = |line: &str| {
            let line: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{arch}: {line}: {error}"));
            assert!(line["time"].is_string(), "{arch}: {line}");
            line["message"].as_str().expect("a message").to_owned()
        };
        let messages: Vec<String> = said.lines().map(message).collect();
        assert!(messages[0].starts_with("serving "), "{arch}: {said}");
        assert!(messages.iter().any(|message| message.starts_with("stopped")), "{arch}: {said}");
    }
}
