//! A site's own page for missing names, fields of responses to OPTIONS, clients behind a trusted proxy, and FastCGI servers
//! that cannot be reached.

#![forbid(unsafe_code)]

use std::fs;

use flash_tests::{ARCHITECTURES, PROCESSES, Server, reply, scripts, site, wait_for};

#[test]
fn the_sites_own_404_page_needs_no_flag() {
    for arch in ARCHITECTURES {
        let site = site::make();
        let page = site.path().join("404.html");
        site::write(&page, b"<h1>lost here</h1>\n");
        let flags = ["--revalidate", "50ms", "--header", "X-Own: yes", "--processes", "1"];
        let server = Server::start(arch, site.path(), &flags);
        // The caches learn of it, answer from it, and so do names that no site has.
        for path in ["/none", "/none", "/other", "/sub/none.css", "/.git/config", "/a.txt/"] {
            let reply = server.get(path);
            assert_eq!((reply.status, &*reply.body), (404, &b"<h1>lost here</h1>\n"[..]), "{arch} {path}");
            assert_eq!(reply.field("Content-Type"), Some("text/html; charset=utf-8"), "{arch} {path}");
            assert_eq!((reply.field("X-Own"), reply.field("ETag")), (Some("yes"), None), "{arch} {path}");
        }
        let head = server.raw(b"HEAD /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let head = reply::all(&head, |_| true).remove(0);
        assert_eq!((head.status, head.field("Content-Length")), (404, Some("19")), "{arch}");
        // Conditions and ranges are about what was asked for, which is not there.
        let odd = server.raw(
            b"GET /none HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(reply::only(&odd).body.len(), 19, "{arch}");
        assert_eq!(server.get("/404.html").status, 200, "{arch}");
        assert_eq!(server.get("/plain/").status, 403, "{arch}");
        // A large one is sent in pieces, and a new one is noticed.
        let large = site::pattern(3_000_000);
        site::write(&page, &large);
        wait_for("the new page", || server.get("/none").body.len() == large.len());
        assert_eq!(server.get("/none").body, large, "{arch}");
        fs::remove_file(&page).unwrap();
        wait_for("the plain page", || server.get("/none").body.starts_with(b"<!doctype html>"));
        assert_eq!(server.get("/none").status, 404);
        server.stop();
    }
}

#[test]
fn a_404_page_of_a_folder_of_error_pages_comes_first() {
    let (site, pages) = (site::make(), tempfile::tempdir().unwrap());
    site::write(&site.path().join("404.html"), b"of the site");
    site::write(&pages.path().join("404.html"), b"of the flag");
    let server = Server::start("amped", site.path(), &["--error-pages", pages.path().to_str().unwrap()]);
    assert_eq!(server.get("/none").body, b"of the flag");
    server.stop();
}

#[test]
fn headers_go_with_answers_to_options() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--header", "Access-Control-Allow-Origin: *"]);
        for target in ["/a.txt", "*"] {
            let request = format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let reply = reply::only(&server.raw(request.as_bytes()));
            assert_eq!(reply.status, 204, "{arch}");
            assert_eq!(reply.field("Access-Control-Allow-Origin"), Some("*"), "{arch} {target}");
        }
        server.stop();
    }
}

#[test]
fn logs_and_programs_see_the_client_behind_a_trusted_proxy() {
    const FIELDS: &str = "X-Forwarded-For: 6.6.6.6, 192.0.2.7, 127.9.9.9\r\nX-Forwarded-Proto: https\r\n";
    let (site, programs) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", programs.path().display());
    for arch in ARCHITECTURES {
        for (trusted, who, scheme) in
            [("127.0.0.0/8", "192.0.2.7", "https"), ("10.0.0.0/8", "127.0.0.1", "http")]
        {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            let flags =
                ["--trusted-proxies", trusted, "--access-log", log.to_str().unwrap(), "--processes", "1"];
            // A sandbox would be in the way of nothing here but the test's own scripts in private folders.
            let cgi = if arch == PROCESSES { vec![] } else { vec!["--cgi", &cgi] };
            let server = Server::start(arch, site.path(), &[&flags[..], &cgi].concat());
            let ask = |path: &str| {
                let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{FIELDS}Connection: close\r\n\r\n");
                reply::only(&server.raw(request.as_bytes()))
            };
            assert_eq!(ask("/a.txt").status, 200);
            assert_eq!(ask("/3000000.bin").status, 200);
            let mut lines = 2;
            if !cgi.is_empty() {
                let variables = String::from_utf8(ask("/cgi/env").body).unwrap();
                let has = |line: &str| variables.lines().any(|other| other == line);
                assert!(has(&format!("REMOTE_ADDR={who}")), "{arch}: {variables} {}", server.said());
                assert!(has(&format!("REQUEST_SCHEME={scheme}")), "{arch}: {variables}");
                assert_eq!(has("HTTPS=on"), scheme == "https", "{arch}: {variables}");
                lines += 1;
            }
            let text = || fs::read_to_string(&log).unwrap_or_default();
            wait_for("the log", || text().lines().count() == lines);
            assert!(text().lines().all(|line| line.starts_with(&format!("{who} "))), "{arch}: {}", text());
            server.stop();
        }
    }
}

#[test]
fn a_fastcgi_server_that_is_not_there_is_named_at_the_start() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("php.sock");
    let flag = format!(".php=unix:{}", socket.display());
    for arch in ["amped", "mp"] {
        let server = Server::start(arch, site.path(), &["--fastcgi", &flag]);
        wait_for("a hint", || server.said().contains("is the FastCGI server running?"));
        assert!(
            server.said().contains(&format!("--fastcgi .php: cannot connect to unix:{}", socket.display()))
        );
        assert_eq!(server.get("/a.txt").status, 200);
        server.stop();
    }
}
