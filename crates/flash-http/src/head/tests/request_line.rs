//! Request lines and targets (RFC 9112 §3), and what may come before them.

use super::*;
use crate::Method;

fn target(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn rfc9112_3_a_plain_request() {
    let text = "GET /where?q=now HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
    let head = head(text);
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.framing.version, Version::Http11);
    assert_eq!(head.target, Target::Origin { path: b"/where", query: Some(b"q=now") });
    assert_eq!(head.framing.request_line, b"GET /where?q=now HTTP/1.1");
    assert_eq!(head.host, Some(&b"www.example.org"[..]));
    assert_eq!((head.framing.keep_alive, head.body, head.expect), (true, Body::None, Expect::None));
}

#[test]
fn what_follows_the_head_is_left_alone() {
    let text = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n\0\xff";
    let Ok(Parsed::Complete { bytes, .. }) = parse(text, &Limits::default()) else { panic!("complete") };
    assert_eq!(bytes, text.len() - 2);
}

#[test]
fn rfc9112_2_2_empty_lines_before_the_request_are_skipped() {
    for lines in 0..=8 {
        let text = format!("{}GET / HTTP/1.0\r\n\r\n", "\r\n".repeat(lines));
        assert_eq!(head(&text).framing.request_line, b"GET / HTTP/1.0");
    }
    assert!(["", "\r", "\r\n", "\r\n\r", "\r\n\r\n"].into_iter().all(is_incomplete));
    for text in [&"\r\n".repeat(9), "\n", "\rG", "\r\n\n", " GET / HTTP/1.0\r\n\r\n"] {
        assert_eq!(refused(text), 400, "{text:?}");
    }
}

#[test]
fn rfc9112_3_single_spaces_and_nothing_else() {
    for line in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / a HTTP/1.1",
        " / HTTP/1.1",
        "GET HTTP/1.1",
        "GET",
        "GET ",
        "GET /",
        "G@T / HTTP/1.1",
        "GET: / HTTP/1.1",
    ] {
        assert_eq!(refused(format!("{line}\r\nHost: h\r\n\r\n")), 400, "{line:?}");
    }
}

#[test]
fn rfc9112_2_2_lines_end_in_crlf() {
    for line_end in ["\n", "\r", "\r\r\n", "\n\r", "\0\r\n"] {
        assert_eq!(refused(format!("GET / HTTP/1.1{line_end}Host: h\r\n\r\n")), 400, "{line_end:?}");
    }
}

#[test]
fn rfc9112_2_3_versions() {
    let version = |version: &str| format!("GET / {version}\r\nHost: h\r\n\r\n");
    assert_eq!(head(&version("HTTP/1.0")).framing.version, Version::Http10);
    assert_eq!(head(&version("HTTP/1.2")).framing.version, Version::Http11);
    assert_eq!(head(&version("HTTP/1.9")).framing.version, Version::Http11);
    assert_eq!(refused(version("HTTP/2.0")), 505);
    assert_eq!(refused(version("HTTP/0.9")), 505);
    for bad in [
        "http/1.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/11",
        "HTTP/1.10",
        "HTTP/01.1",
        "HTTP/a.1",
        "HTTP/1,1",
        "XTTP/1.1",
    ] {
        assert_eq!(refused(version(bad)), 400, "{bad}");
    }
    // It need not be whole to be wrong.
    assert!(is_incomplete("GET / HTTP/1") && is_incomplete("GET / HTTP/1.1\r"));
    assert_eq!(refused("GET / HTX"), 400);
    assert_eq!(refused("GET / HTTP/1.1\n"), 400);
}

#[test]
fn http_0_9_is_not_spoken() {
    assert_eq!(refused("GET /\r\n"), 400);
    assert_eq!(refused("GET /\n"), 400);
}

#[test]
fn rfc9110_9_methods() {
    assert_eq!(head(&target("HEAD", "/")).method, Method::Head);
    assert_eq!(head(&target("OPTIONS", "/")).method, Method::Options);
    assert_eq!(head(&target("POST", "/")).method, Method::Known("POST"));
    assert_eq!(head(&target("get", "/")).method, Method::Unknown);
    assert_eq!(head(&target("M!#$%&'*+-.^_`|~9", "/")).method, Method::Unknown);
}

#[test]
fn methods_are_bounded() {
    assert_eq!(head(&target(&"M".repeat(32), "/")).method, Method::Unknown);
    assert!(is_incomplete("M".repeat(32)));
    assert_eq!(refused("M".repeat(33)), 400);
}

#[test]
fn rfc9112_3_2_1_origin_form() {
    let path = |text: &'static str| match head(text).target {
        Target::Origin { path, query } => (path, query),
        other => panic!("{other:?}"),
    };
    assert_eq!(path("GET // HTTP/1.0\r\n\r\n"), (&b"//"[..], None));
    assert_eq!(path("GET /a?b?c HTTP/1.0\r\n\r\n"), (&b"/a"[..], Some(&b"b?c"[..])));
    assert_eq!(path("GET /a? HTTP/1.0\r\n\r\n"), (&b"/a"[..], Some(&b""[..])));
    assert_eq!(path("GET /%00\u{e9}\"<>\\ HTTP/1.0\r\n\r\n").0, "/%00\u{e9}\"<>\\".as_bytes());
    for bad in ["/a#b", "/a?b#c", "/#", "a", "?a", "/a\x01", "/\x7f", "/a\0b"] {
        assert_eq!(refused(target("GET", bad)), 400, "{bad:?}");
    }
}

#[test]
fn rfc9112_3_2_2_absolute_form() {
    let text = target("GET", "http://www.example.org:80/pub/WWW/?q");
    let read = head(&text);
    assert_eq!(read.target, Target::Origin { path: b"/pub/WWW/", query: Some(b"q") });
    // Its authority takes the place of Host.
    assert_eq!(read.host, Some(&b"www.example.org:80"[..]));
    assert_eq!(head(&target("GET", "HTTPS://h")).target, Target::Origin { path: b"/", query: None });
    assert_eq!(head(&target("GET", "http://h?a")).target, Target::Origin { path: b"/", query: Some(b"a") });
    assert_eq!(head(&target("GET", "http://[::1]:80/")).host, Some(&b"[::1]:80"[..]));
    for bad in [
        "http://",
        "http:///a",
        "http://:80/",
        "http://u@h/",
        "http://u:p@h/",
        "http://h:x/",
        "http://h/#a",
        "http://h?a#b",
        "http://h#a",
        "http:/h",
        "ftp://h/",
        "http://h\u{e9}/",
        "http://h\\/",
        "http://[::1/",
    ] {
        assert_eq!(refused(target("GET", bad)), 400, "{bad}");
    }
    // It does not make up for a missing Host, or a wrong one.
    assert_eq!(refused("GET http://h/ HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(refused("GET http://h/ HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
}

#[test]
fn rfc9112_3_2_3_authority_form() {
    assert_eq!(head(&target("CONNECT", "h:443")).target, Target::Authority(b"h:443"));
    assert_eq!(head(&target("CONNECT", "[::1]:443")).target, Target::Authority(b"[::1]:443"));
    for bad in ["/", "h", "h:", ":443", "http://h/", "*"] {
        assert_eq!(refused(target("CONNECT", bad)), 400, "{bad}");
    }
    assert_eq!(refused(target("GET", "h:443")), 400);
}

#[test]
fn rfc9112_3_2_4_asterisk_form() {
    assert_eq!(head(&target("OPTIONS", "*")).target, Target::Asterisk);
    assert_eq!(head(&target("OPTIONS", "http://h:8001")).target, Target::Asterisk);
    assert_eq!(refused(target("GET", "*")), 400);
    assert_eq!(refused(target("OPTIONS", "*a")), 400);
}

#[test]
fn rfc9110_15_5_15_targets_are_bounded() {
    let limits = Limits { target_bytes_max: 10, ..Limits::default() };
    let verdict = |target: &str| parse_status(&format!("GET {target} HTTP/1.0\r\n\r\n"), &limits);
    assert_eq!(verdict("/123456789"), None);
    assert_eq!(verdict("/1234567890"), Some(414));
    // No end of the target is waited for.
    assert_eq!(refused_within("GET /1234567890", &limits), 414);
    assert!(matches!(parse(b"GET /123456789", &limits), Ok(Parsed::Incomplete)));
}

fn parse_status(text: &str, limits: &Limits) -> Option<u16> {
    parse(text.as_bytes(), limits).err().map(|reject| reject.status.0)
}
