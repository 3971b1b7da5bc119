//! What the access log says of requests that were none: as much of them as was read, and why they were refused.

#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;

use flash_tests::{ARCHITECTURES, Server, read_all, reply, site};

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
