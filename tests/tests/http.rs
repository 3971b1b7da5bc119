//! One suite, every architecture, the same bytes back. Cases are named after the section that they hold Flash to.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use flash_tests::reply::{self, Reply, undated};
use flash_tests::{ARCHITECTURES, Server, site};

/// What one response has to be: its status, fields, and its body if that matters.
struct Expected(u16, &'static [(&'static str, &'static str)], Option<&'static [u8]>);

const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const HOST: &str = "Host: h\r\n";

#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<(&'static str, String, Vec<Expected>)> {
    let one = |status, fields, body| vec![Expected(status, fields, body)];
    let get =
        |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\n{HOST}{fields}Connection: close\r\n\r\n");
    let bad = |head: &str| head.to_owned();
    let a: &'static [u8] = b"0123456789";
    let mut cases = vec![
        ("9110 §9.3.1 GET", get("/a.txt", ""), one(200, &[("Content-Length", "10"), ("Last-Modified", MODIFIED), ("Accept-Ranges", "bytes"), ("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")], Some(a))),
        ("9110 §9.3.1 an empty file", get("/empty", ""), one(200, &[("Content-Length", "0")], Some(b""))),
        ("9110 §9.3.2 HEAD", "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(200, &[("Content-Length", "10")], Some(b""))),
        ("9110 §9.3.7 OPTIONS", "OPTIONS /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(204, &[("Allow", "GET, HEAD, OPTIONS")], None)),
        ("9110 §9.3.7 OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(204, &[("Allow", "GET, HEAD, OPTIONS")], None)),
        ("9110 §15.5.6 method not allowed", "DELETE /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(405, &[("Allow", "GET, HEAD, OPTIONS")], None)),
        ("9110 §15.5.6 POST with a body closes", "POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc".into(), one(405, &[("Connection", "close")], None)),
        ("9110 §15.6.2 unknown method", "BREW /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(501, &[], None)),
        ("9110 §10.1.1 expectation failed", "GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n".into(), one(417, &[], None)),
        ("9110 §10.1.1 100-continue", "GET /a.txt HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc".into(), vec![Expected(100, &[], None), Expected(200, &[], Some(a))]),
        ("9112 §6.3 a body on GET is dropped", "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nGET /GET /empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), vec![Expected(200, &[], Some(a)), Expected(200, &[], Some(b""))]),
        ("9112 §7.1 a chunked body is dropped", "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\nGET /empty HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), vec![Expected(200, &[], Some(a)), Expected(200, &[], Some(b""))]),
        ("9110 §15.5.14 content too large", "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n".into(), one(413, &[("Connection", "close")], None)),
        ("9112 §9.3 pipelining, mixed", format!("GET /a.txt HTTP/1.1\r\n{HOST}\r\nGET /none HTTP/1.1\r\n{HOST}\r\nHEAD /a.txt HTTP/1.1\r\n{HOST}\r\n{}", get("/3000000.bin", "")), vec![Expected(200, &[], Some(a)), Expected(404, &[], None), Expected(200, &[], None), Expected(200, &[("Content-Length", "3000000")], None)]),
        ("9112 §9.3 behind a large file", format!("GET /3000000.bin HTTP/1.1\r\n{HOST}\r\n{}", get("/a.txt", "")), vec![Expected(200, &[], None), Expected(200, &[], Some(a))]),
        ("9112 §9.3 HTTP/1.0 closes", "GET /a.txt HTTP/1.0\r\n\r\n".into(), one(200, &[("Connection", "close")], Some(a))),
        ("9112 §C.2.2 HTTP/1.0 keep-alive", "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /a.txt HTTP/1.0\r\n\r\n".into(), vec![Expected(200, &[("Connection", "keep-alive")], Some(a)), Expected(200, &[("Connection", "close")], Some(a))]),
        ("9112 §3.2.2 absolute form", "GET http://other/a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into(), one(200, &[], Some(a))),
        ("9110 §13.1.2 If-None-Match *", get("/a.txt", "If-None-Match: *\r\n"), one(304, &[("Last-Modified", MODIFIED)], None)),
        ("9110 §13.1.3 If-Modified-Since", get("/a.txt", &format!("If-Modified-Since: {MODIFIED}\r\n")), one(304, &[], None)),
        ("9110 §13.1.3 modified since", get("/a.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), one(200, &[], Some(a))),
        ("9110 §13.1.4 If-Unmodified-Since", get("/a.txt", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), one(412, &[], None)),
        ("9110 §13.1.1 If-Match", get("/a.txt", "If-Match: \"x\"\r\n"), one(412, &[], None)),
        ("9110 §13.2.2 If-None-Match comes first", get("/a.txt", &format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {MODIFIED}\r\n")), one(200, &[], Some(a))),
        ("9110 §14.1.2 first bytes", get("/a.txt", "Range: bytes=2-4\r\n"), one(206, &[("Content-Range", "bytes 2-4/10"), ("Content-Length", "3")], Some(b"234"))),
        ("9110 §14.1.2 open range", get("/a.txt", "Range: bytes=8-\r\n"), one(206, &[("Content-Range", "bytes 8-9/10")], Some(b"89"))),
        ("9110 §14.1.2 suffix", get("/a.txt", "Range: bytes=-3\r\n"), one(206, &[("Content-Range", "bytes 7-9/10")], Some(b"789"))),
        ("9110 §14.1.2 past the end", get("/a.txt", "Range: bytes=5-99\r\n"), one(206, &[("Content-Range", "bytes 5-9/10")], Some(b"56789"))),
        ("9110 §14.2 overlaps are one", get("/a.txt", "Range: bytes=0-4,3-6\r\n"), one(206, &[("Content-Range", "bytes 0-6/10")], Some(b"0123456"))),
        ("9110 §14.2 not bytes", get("/a.txt", "Range: lines=1-2\r\n"), one(200, &[], Some(a))),
        ("9110 §14.2 HEAD has no ranges", "HEAD /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n".into(), one(200, &[("Content-Length", "10")], None)),
        ("9110 §15.5.17 unsatisfiable", get("/a.txt", "Range: bytes=10-\r\n"), one(416, &[("Content-Range", "bytes */10")], None)),
        ("9110 §14.2 many tiny ranges", get("/1048577.bin", &format!("Range: bytes={}\r\n", (0..300).map(|n| format!("{}-{}", n * 10, n * 10 + 1)).collect::<Vec<_>>().join(","))), one(200, &[("Content-Length", "1048577")], None)),
        ("9110 §13.1.5 If-Range holds", get("/a.txt", &format!("Range: bytes=0-1\r\nIf-Range: {MODIFIED}\r\n")), one(206, &[], Some(b"01"))),
        ("9110 §13.1.5 If-Range fails", get("/a.txt", "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n"), one(200, &[], Some(a))),
        ("9110 §12.5.3 gzip", get("/page.html", "Accept-Encoding: gzip\r\n"), one(200, &[("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"), ("Content-Type", "text/html; charset=utf-8")], Some(b"gzip bytes"))),
        ("9110 §12.5.3 the best", get("/page.html", "Accept-Encoding: gzip, br, zstd\r\n"), one(200, &[("Content-Encoding", "br")], Some(b"br bytes"))),
        ("9110 §12.4.2 weights", get("/page.html", "Accept-Encoding: br;q=0.1, zstd;q=0.5\r\n"), one(200, &[("Content-Encoding", "zstd")], Some(b"zstd bytes"))),
        ("9110 §12.5.3 identity", get("/page.html", ""), one(200, &[("Vary", "Accept-Encoding")], Some(b"<p>identity</p>\n"))),
        ("9110 §15.4.2 a folder without its slash", get("/sub?x=1", ""), one(301, &[("Location", "/sub/?x=1")], None)),
        ("3986 §4.2 a colon in a folder's name", get("/colon:dir", ""), one(301, &[("Location", "/colon:dir/")], None)),
        ("index files", get("/sub/", ""), one(200, &[("Content-Type", "text/html; charset=utf-8")], Some(b"sub\n"))),
        ("3986 §5.2.4 dots", get("/sub/./../a.txt", ""), one(200, &[], Some(a))),
        ("3986 §2.1 escapes", get("/%61.txt", ""), one(200, &[], Some(a))),
        ("bytes that are not UTF-8", get("/%ff.txt", ""), one(200, &[], Some(b"latin"))),
        ("3986 §5.2.4 above the root", get("/../a.txt", ""), one(400, &[], None)),
        ("an encoded way up", get("/sub/%2e%2e/%2e%2e/etc/passwd", ""), one(400, &[], None)),
        ("an encoded slash", get("/sub%2f..%2fa.txt", ""), one(200, &[], Some(a))),
        ("an encoded NUL", get("/a.txt%00", ""), one(400, &[], None)),
        ("a broken escape", get("/%zz", ""), one(400, &[], None)),
        ("a file is no folder", get("/a.txt/", ""), one(404, &[], None)),
        ("vanished", get("/none", ""), one(404, &[], None)),
        ("hidden", get("/.git/config", ""), one(404, &[], None)),
        ("8615 well-known", get("/.well-known/x", ""), one(200, &[], Some(b"yes"))),
        ("a link inside", get("/link-in", ""), one(200, &[], Some(a))),
        ("an absolute link inside", get("/link-absolute", ""), one(200, &[], Some(a))),
        ("a link out", get("/link-out", ""), one(403, &[], None)),
        ("a link up and out", get("/sub/link-up", ""), one(403, &[], None)),
        ("a link to itself", get("/loop", ""), one(404, &[], None)),
        ("a FIFO is never opened", get("/fifo", ""), one(404, &[], None)),
        ("9112 §2.2 one empty line before", format!("\r\n{}", get("/a.txt", "")), one(200, &[], Some(a))),
    ];
    // RFC 9112 §11.2: 400, the connection closes, and what follows is not answered.
    for (name, head) in [
        ("bare LF", "GET /a.txt HTTP/1.1\nHost: h\n\n"),
        ("bare CR", "GET /a.txt HTTP/1.1\r\nHost: h\rX: y\r\n\r\n"),
        ("space before the colon", "GET /a.txt HTTP/1.1\r\nHost : h\r\n\r\n"),
        ("a folded line", "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"),
        ("two lengths", "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        ("a length with a sign", "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n"),
        (
            "length and chunked",
            "GET /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        ("a body without an end", "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"),
        ("chunked in HTTP/1.0", "GET /a.txt HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("a bad chunk", "GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        ("a control character", "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n"),
        ("NUL", "GET /a.txt HTTP/1.1\r\nHost: h\r\nX: \0\r\n\r\n"),
        ("no Host", "GET /a.txt HTTP/1.1\r\n\r\n"),
        ("two Hosts", "GET /a.txt HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"),
        ("HTTP/0.9", "GET /a.txt\r\n\r\n"),
        ("two spaces", "GET  /a.txt HTTP/1.1\r\nHost: h\r\n\r\n"),
    ] {
        let request = bad(head) + "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n";
        cases.push((name, request, one(400, &[("Connection", "close")], None)));
    }
    cases.push((
        "9112 §6.1 an unknown coding",
        bad("GET /a.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
            + "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n",
        one(501, &[("Connection", "close")], None),
    ));
    cases.push((
        "9110 §15.5.15 target too long",
        format!("GET /{} HTTP/1.1\r\n", "a".repeat(9000)),
        one(414, &[], None),
    ));
    cases.push((
        "6585 §5 fields too large",
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "a".repeat(40_000)),
        one(431, &[], None),
    ));
    cases
}

fn check(name: &str, request: &str, replies: &[Reply], expected: &[Expected]) {
    assert_eq!(
        replies.len(),
        expected.len(),
        "{name}: {replies:?}\nto {:?}",
        &request[..request.len().min(300)]
    );
    for (reply, Expected(status, fields, body)) in replies.iter().zip(expected) {
        assert_eq!(reply.status, *status, "{name}: {reply:?}");
        for (field, value) in *fields {
            assert_eq!(reply.field(field), Some(*value), "{name}: {field} of {reply:?}");
        }
        if let Some(body) = body {
            assert_eq!(&reply.body[..], *body, "{name}");
        }
        if *status != 100 {
            assert_eq!(reply.field("Date").map(str::len), Some(29), "{name}");
        }
    }
}

#[test]
fn every_case_in_every_architecture() {
    let site = site::make();
    let servers =
        ARCHITECTURES.map(|arch| Server::start(arch, site.path(), &["--processes", "4", "--threads", "8"]));
    for (name, request, expected) in cases() {
        let heads: Vec<bool> = request
            .match_indices(" HTTP/1.")
            .map(|(at, _)| request[..at].rfind("HEAD ").is_some_and(|head| !request[head..at].contains('\n')))
            .collect();
        let answers = servers.each_ref().map(|server| server.raw(request.as_bytes()));
        for (answer, arch) in answers.iter().zip(ARCHITECTURES) {
            let replies = reply::all(answer, |number| heads.get(number).copied().unwrap_or(false));
            check(&format!("{name} ({arch})"), &request, &replies, &expected);
            assert!(undated(answer) == undated(&answers[0]), "{name}: {arch} differs from amped");
        }
    }
    servers.into_iter().for_each(|server| drop(server.stop()));
}

#[test]
fn files_of_all_sizes_and_any_range_of_them() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        for size in site::SIZES {
            let all = site::pattern(size);
            for _ in 0..2 {
                assert!(server.get(&format!("/{size}.bin")).body == all, "{arch}: {size} bytes");
            }
            let (from, to) = (size / 3, size - size / 5 - 1);
            let range = format!(
                "GET /{size}.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={from}-{to}\r\nConnection: close\r\n\r\n"
            );
            if from <= to {
                assert!(
                    reply::only(&server.raw(range.as_bytes())).body == all[from..=to],
                    "{arch}: {size} bytes in part"
                );
            }
        }
        let parts = b"GET /3000000.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=2500000-2999999,0-9\r\nConnection: close\r\n\r\n";
        let reply = reply::only(&server.raw(parts));
        let boundary = reply
            .field("Content-Type")
            .and_then(|value| value.strip_prefix("multipart/byteranges; boundary="));
        let boundary = boundary.expect("a boundary").trim_matches('"').to_owned();
        let all = site::pattern(3_000_000);
        let mut expected = format!("--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 2500000-2999999/3000000\r\n\r\n").into_bytes();
        expected.extend_from_slice(&all[2_500_000..]);
        expected.extend_from_slice(format!("\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 0-9/3000000\r\n\r\n").as_bytes());
        expected.extend_from_slice(&all[..10]);
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(reply.body == expected, "{arch}: multipart");
        server.stop();
    }
}

#[test]
fn a_request_in_single_bytes_is_the_same_request() {
    let site = site::make();
    let request = b"GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\nConnection: close\r\n\r\n";
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        let whole = undated(&server.raw(request));
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in request {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        let mut pieces = Vec::new();
        stream.read_to_end(&mut pieces).unwrap();
        assert_eq!(undated(&pieces), whole, "{arch}");
        server.stop();
    }
}

#[test]
fn entity_tags_are_honoured_and_change_with_the_file() {
    let site = site::make();
    for arch in ARCHITECTURES {
        site::write(&site.path().join("a.txt"), b"0123456789");
        let server = Server::start(arch, site.path(), &["--processes", "1", "--revalidate", "0"]);
        let tag = server.get("/a.txt").field("ETag").expect("an entity tag").to_owned();
        let ask = |tag: &str| {
            let request = format!(
                "GET /a.txt HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"y\", {tag}\r\nConnection: close\r\n\r\n"
            );
            reply::only(&server.raw(request.as_bytes()))
        };
        assert_eq!(ask(&tag).status, 304, "{arch}");
        assert_eq!(ask(&format!("W/{tag}")).status, 304, "{arch}: weak comparison");
        std::fs::write(site.path().join("a.txt"), "changed").unwrap();
        let changed = ask(&tag);
        assert_eq!((changed.status, &changed.body[..]), (200, &b"changed"[..]), "{arch}");
        std::fs::remove_file(site.path().join("a.txt")).unwrap();
        assert_eq!(server.get("/a.txt").status, 404, "{arch}");
        server.stop();
    }
}

#[test]
fn listings_single_pages_error_pages_and_fields() {
    let site = site::make();
    let pages = tempfile::tempdir().unwrap();
    std::fs::write(pages.path().join("404.html"), "lost\n").unwrap();
    for number in 0..3000 {
        std::fs::write(site.path().join(format!("many/{number:04}")), "").unwrap();
    }
    for arch in ARCHITECTURES {
        let flags = [
            "--list",
            "--header",
            "X-A: b",
            "--cache-control",
            "max-age=60",
            "--processes",
            "4",
            "--error-pages",
            pages.path().to_str().unwrap(),
        ];
        let server = Server::start(arch, site.path(), &flags);
        let list = server.get("/plain/");
        let html = String::from_utf8(list.body.clone()).unwrap();
        assert_eq!((list.status, list.field("X-A")), (200, Some("b")), "{arch}");
        assert!(html.contains("a&amp;&lt;b&gt;&quot;.txt") && !html.contains(".secret"), "{arch}: {html}");
        assert!(html.find("inner/").unwrap() < html.find("b.txt").unwrap(), "{arch}: folders first");
        let many = String::from_utf8(server.get("/many/?sort=name&order=desc").body).unwrap();
        let rows: Vec<usize> =
            (0..3000).map(|number| many.find(&format!(">{number:04}<")).expect("every name")).collect();
        assert!(rows.is_sorted_by(|a, b| a > b), "{arch}: order");
        let old = server.raw(b"GET /many/ HTTP/1.0\r\n\r\n");
        assert!(
            old.ends_with(b"</html>\n") && reply::find(&old, b"Transfer-Encoding").is_none(),
            "{arch}: HTTP/1.0"
        );
        assert_eq!(server.get("/none").body, b"lost\n", "{arch}");
        assert_eq!(server.get("/a.txt").field("Cache-Control"), Some("max-age=60"), "{arch}");
        server.stop();
        let server = Server::start(
            arch,
            site.path(),
            &["--spa", "index.html", "--dotfiles", "--follow-links", "anywhere", "--processes", "4"],
        );
        assert_eq!(
            (server.get("/some/page").body, server.get("/some/page.js").status),
            (b"home\n".to_vec(), 404),
            "{arch}"
        );
        let page =
            "GET /users/jane.doe HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: text/html\r\n\r\n";
        assert_eq!(reply::only(&server.raw(page.as_bytes())).body, b"home\n", "{arch}");
        assert_eq!(server.get("/users/jane.doe").status, 404, "{arch}");
        assert_eq!((server.get("/.git/config").status, server.get("/link-out").status), (200, 200), "{arch}");
        assert_eq!(server.get("/plain/").body, b"home\n", "{arch}: a folder without an index");
        server.stop();
        let server = Server::start(arch, site.path(), &["--processes", "4"]);
        assert_eq!(server.get("/plain/").status, 403, "{arch}: no listing unless asked");
        server.stop();
    }
}

#[test]
fn as_many_fields_as_there_may_be_arrive_whole() {
    let site = site::make();
    let long = "x".repeat(32_000);
    let field = format!("X-Long: {long}");
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--header", &field, "--processes", "2"]);
        for (path, fields, status) in [
            ("/a.txt", "", 200),
            ("/3000000.bin", "", 200),
            ("/a.txt", "Range: bytes=1-2\r\n", 206),
            ("/a.txt", "If-None-Match: *\r\n", 304),
            ("/none", "", 404),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
            let reply = reply::only(&server.raw(request.as_bytes()));
            assert_eq!(reply.status, status, "{arch}: {path}");
            assert_eq!(reply.field("X-Long"), Some(&*long), "{arch}: {path}");
            assert_eq!(reply.field("Content-Type").is_some(), status != 304, "{arch}: {path}");
        }
        server.stop();
    }
}

#[test]
fn several_listeners_among_them_a_unix_socket() {
    let site = site::make();
    let folder = tempfile::tempdir().unwrap();
    for arch in ARCHITECTURES {
        let path = folder.path().join(arch);
        let listen = format!("unix:{}", path.display());
        let server = Server::start(arch, site.path(), &["--listen", &listen, "--processes", "4"]);
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(reply::only(&answer).body, b"0123456789", "{arch}");
        assert_eq!(server.get("/a.txt").body, b"0123456789", "{arch}");
        server.stop();
        assert!(!path.exists(), "{arch}: the socket's name is gone with the server");
    }
}

#[test]
fn one_port_of_both_families() {
    let site = site::make();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("NOT TESTED: this machine has no IPv6");
    }
    let get = |address: SocketAddr| {
        let mut stream = flash_tests::connect(address);
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        reply::only(&flash_tests::read_all(&mut stream)).body
    };
    for arch in ARCHITECTURES {
        for places in [&["0.0.0.0", "[::]"][..], &["[::]", "127.0.0.1"], &["[::]"], &[""]] {
            // A port that was free a moment ago.
            let port = std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
            let listen: Vec<String> = places.iter().map(|place| format!("{place}:{port}")).collect();
            let flags = listen.iter().flat_map(|place| ["--listen", place]).chain(["--processes", "4"]);
            let server = Server::start(arch, site.path(), &flags.collect::<Vec<_>>());
            assert_eq!(get((Ipv4Addr::LOCALHOST, port).into()), b"0123456789", "{arch}: {places:?}");
            assert_eq!(get((Ipv6Addr::LOCALHOST, port).into()), b"0123456789", "{arch}: {places:?}");
            server.stop();
        }
    }
}
