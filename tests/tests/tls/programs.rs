//! Programs and uploads over TLS.

use std::fs;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{each, need, reply, scripts, site};

use crate::CLOSE;
use crate::client::Secured;
use crate::real_clients::curl;

fn start(arch: &str, site: &std::path::Path, scripts: &std::path::Path) -> Secured {
    let cgi = format!("/cgi={}", scripts.display());
    let direct = format!("/direct={}", scripts.display());
    Secured::start(
        arch,
        site,
        &["--processes", "4", "--cgi", &cgi, "--cgi-direct", &direct, "--body-bytes-max", "16M"],
    )
}

/// What CGI and PHP say of their request, over both versions of HTTP.
#[test]
fn programs_learn_that_the_request_came_over_tls() {
    const PHP: &str = "<?php header('X-Own: yes'); foreach ($_SERVER as $name => $value)
        if (is_string($value)) echo \"$name=$value\\n\"; echo 'BODY=', file_get_contents('php://input'), \"\\n\";";
    need("curl", "curl");
    let (folder, scripts) = (site::make(), scripts::make());
    site::write(&folder.path().join("say.php"), PHP.as_bytes());
    let app = format!(".php={}", need("php-cgi", "php-cgi").display());
    let (cgi, direct) =
        (format!("/cgi={}", scripts.path().display()), format!("/direct={}", scripts.path().display()));
    each(|arch| {
        let programs = ["--cgi", &cgi, "--cgi-direct", &direct, "--app", &app];
        let flags = [&["--sandbox", "off", "--processes", "4"][..], &programs].concat();
        let secured = Secured::start(arch, folder.path(), &flags);
        let port = format!("SERVER_PORT={}", secured.server.address.port());
        for (version, protocol) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
            let protocol = format!("SERVER_PROTOCOL={protocol}");
            // A direct program would write to the client's socket in the clear, so the server answers for it.
            for path in ["cgi/env", "direct/env", "say.php/info?a=b"] {
                let (body, _) = curl(&secured, &[version, "--tls-max", "1.2"], path);
                let text = String::from_utf8(body).expect("a text");
                let has = |line: &str| text.lines().any(|other| other == line);
                let known = ["HTTPS=on", "REQUEST_SCHEME=https", "SSL_PROTOCOL=TLSv1.2", &port, &protocol];
                for line in known.into_iter().chain(["SSL_CIPHER=ECDHE-ECDSA-AES256-GCM-SHA384"]) {
                    assert!(has(line), "{arch} {version} {path}: {line}: {text}");
                }
                assert!(
                    !path.starts_with("say") || has("PATH_INFO=/info") && has("QUERY_STRING=a=b"),
                    "{text}"
                );
            }
            let (body, _) = curl(&secured, &[version, "--data", "posted"], "say.php");
            let text = String::from_utf8(body).expect("a text");
            for line in ["BODY=posted", "SSL_PROTOCOL=TLSv1.3", "CONTENT_LENGTH=6"] {
                assert!(text.lines().any(|other| other == line), "{arch} {version}: {line}: {text}");
            }
        }
        secured.server.stop();
    });
}

/// Over HTTP/2 its head cannot be sent as it is.
#[test]
fn nph_scripts_answer_over_both_versions() {
    need("curl", "curl");
    let (folder, scripts) = (site::make(), scripts::make());
    each(|arch| {
        let secured = start(arch, folder.path(), scripts.path());
        for version in ["--http1.1", "--http2"] {
            let (answer, _) = curl(&secured, &[version, "--include"], "cgi/nph-own");
            let answer = String::from_utf8(answer).expect("a text");
            let head = if version == "--http2" { "HTTP/2 299 \r\n" } else { "HTTP/1.1 299 Own\r\n" };
            assert!(answer.starts_with(head) && answer.ends_with("\r\n\r\nown"), "{arch}: {answer}");
            assert!(answer.to_lowercase().contains("x-own: yes\r\n"), "{arch}: {answer}");
        }
        secured.server.stop();
    });
}

#[test]
fn uploads_come_back_once_they_are_whole() {
    let (folder, scripts) = (site::make(), scripts::make());
    let body: Vec<u8> = (0..3_000_000u32).map(|number| (number / 7) as u8).collect();
    each(|arch| {
        let secured = start(arch, folder.path(), scripts.path());
        let mut stream = secured.connect();
        let head = format!("POST /cgi/echo HTTP/1.1\r\nContent-Length: {}\r\n{CLOSE}", body.len());
        stream.write_all(head.as_bytes()).expect("a head");
        for piece in body.chunks(50_000) {
            stream.write_all(piece).expect("it is taken");
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the rest, and a close_notify");
        let reply = reply::only(&answer);
        assert!(reply.status == 200 && reply.body == body, "{arch}: {} bytes", reply.body.len());
        secured.server.stop();
    });
}

/// What begins a connection of HTTP/2, and a POST with 1,000 bytes of its body, as frames (RFC 9113 §4.1).
fn upload(path: &str, length: &[u8]) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let size = (payload.len() as u32).to_be_bytes();
        [&size[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // :method POST, :scheme https, :path and :authority as literals (RFC 7541 §6.2.2).
    let path = [&[0x04, path.len() as u8][..], path.as_bytes()].concat();
    let fields = [&[0x83, 0x87][..], &path, &[0x01, 9], b"localhost", length].concat();
    let (settings, headers) = (frame(4, 0, 0, b""), frame(1, 4, 1, &fields));
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &headers, &frame(0, 0, 1, &[b'x'; 1000])].concat()
}

#[test]
fn an_upload_without_its_end_is_not_complete() {
    let (folder, scripts) = (site::make(), scripts::make());
    let (begun, seen) = (scripts.path().join("begun"), scripts.path().join("seen"));
    // One process: where a signal for a group kills `cat` first, its shell could go on.
    let script = format!(
        "#!/bin/sh\necho $QUERY_STRING $$ >> {}\nwhile read -r line; do :; done\necho $SERVER_PROTOCOL $QUERY_STRING >> {}\n\
         printf 'Content-Type: text/plain\\n\\nok'",
        begun.display(),
        seen.display()
    );
    scripts::script(scripts.path(), "whole", &script);
    // The process that answers a request.
    let process = |query: &str| {
        let text = fs::read_to_string(&begun).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(query)?.strip_prefix(' ').map(str::to_owned))
    };
    each(|arch| {
        let secured = start(arch, folder.path(), scripts.path());
        let port = secured.server.address.port();
        let mut number = 0;
        for is_http2 in [false, true] {
            for (has_length, says_so) in [(true, false), (true, true), (false, false), (false, true)] {
                number += 1;
                let query = format!("{port}-{number}-{}", arch.replace(" ", ""));
                let path = format!("/cgi/whole?{query}");
                let (mut stream, request) = if is_http2 {
                    // content-length: 100000.
                    let length = if has_length { &b"\x0f\x0d\x06100000"[..] } else { b"" };
                    (secured.connect_http2(), upload(&path, length))
                } else {
                    let field =
                        if has_length { "Content-Length: 100000" } else { "Transfer-Encoding: chunked" };
                    let body = if has_length { "x".repeat(1_000) } else { "5\r\nhello\r\n".into() };
                    let request = format!("POST {path} HTTP/1.1\r\n{field}\r\n{CLOSE}{body}");
                    (secured.connect(), request.into_bytes())
                };
                stream.write_all(&request).expect("a part of a request");
                if says_so {
                    stream.conn.send_close_notify();
                    stream.flush().expect("the end");
                }
                stream.sock.shutdown(std::net::Shutdown::Write).expect("the end");
                let mut answer = Vec::new();
                // Nothing, or an error.
                let _ = stream.read_to_end(&mut answer);
                assert!(!answer.starts_with(b"HTTP/1.1 200"), "{arch}: {query}");
                // The body is stored before a program starts.
                assert_eq!(process(&query), None, "{arch}: {query}");
            }
        }
        secured.server.stop();
    });
    let seen = fs::read_to_string(&seen).unwrap_or_default();
    assert_eq!(seen, "", "a program took a part of a body for the whole");
}

#[test]
fn a_client_that_reads_nothing_stops_its_program_and_is_cut() {
    let (folder, scripts) = (site::make(), scripts::make());
    each(|arch| {
        let cgi = format!("/cgi={}", scripts.path().display());
        // While a response goes to the disk, Flash does not wait for the client.
        let flags =
            ["--processes", "4", "--cgi", &cgi, "--send-rate-min", "100M", "--program-spool-bytes", "0"];
        let secured = Secured::start(arch, folder.path(), &flags);
        let mut stream = secured.connect();
        stream.write_all(format!("GET /cgi/flood HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
        let begun = Instant::now();
        // A credit of ten seconds, and nothing that adds to it but what sockets hold.
        thread::sleep(Duration::from_secs(13));
        let mut piece = vec![0; 1 << 20];
        let end = loop {
            match stream.read(&mut piece) {
                Ok(0) => break true,
                Ok(_) if begun.elapsed() > Duration::from_secs(19) => break false,
                Ok(_) => {}
                Err(_) => break true,
            }
        };
        assert!(end, "{arch}: it goes on");
        secured.server.stop();
    });
}
