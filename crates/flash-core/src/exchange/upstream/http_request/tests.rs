//! What servers behind this one are sent, for requests of all kinds.

use std::sync::LazyLock;

use flash_http::head::{Limits, Parsed, parse};
use flash_http::trace_context::TraceParent;

use super::*;

static ROOT: LazyLock<SitePath<'static>> = LazyLock::new(|| SitePath::parse(b"/").unwrap());

fn told(rules: &ProxyRules) -> Told<'_> {
    let peer = Peer::Inet(([192, 0, 2, 1], 5000).into());
    Told {
        rules,
        path: &ROOT,
        upgrades: false,
        strip_prefix: b"",
        peer,
        believed: None,
        client: TransportInfo::plain(peer),
        version: Version::Http11,
        request_id: None,
        trace: trace::Told { is_valid: false, own: None },
        expects: false,
        body: ToldBody::None,
    }
}

/// The head that a request leads to.
fn written(request: &str, told: &Told<'_>) -> String {
    let Ok(Parsed::Complete { head, .. }) = parse(request.as_bytes(), &Limits::default()) else {
        panic!("it is a request: {request}");
    };
    let path = SitePath::parse(head.target.raw_path()).unwrap();
    let told = Told { path: &path, upgrades: asks_for_websocket(&head, told.version), ..told.clone() };
    String::from_utf8(write(&head, &told)).unwrap()
}

fn target(path: &str, told: &Told<'_>) -> String {
    let head = written(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"), told);
    head.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_request_is_written_anew() {
    let request = "POST /a?b=%20 HTTP/1.1\r\nHost: example.org\r\nConnection: close, X-Own\r\nX-Own: 1\r\nKeep-Alive: 3\r\n\
                   TE: trailers\r\nTrailer: X\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nProxy-Connection: close\r\nExpect: 100-continue\r\n\
                   Content-Length: 3\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nForwarded: for=x\r\nX-Real-IP: y\r\n\
                   X-Forwarded-Ssl: on\r\nX-Forwarded-Prefix: /x\r\nX-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX_Forwarded_For: z\r\nX-Request-Id: forged\r\ntracestate: a=b\r\nCookie: a=1\r\nCookie: b=2\r\nAccept: */*\r\n\r\n";
    let rules = ProxyRules::default();
    assert_eq!(
        written(request, &Told { body: ToldBody::Length(3), ..told(&rules) }),
        "POST /a?b=%20 HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nCookie: a=1; b=2\r\nX-Forwarded-For: 192.0.2.1\r\n\
         X-Real-IP: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: example.org\r\nVia: 1.1 flash\r\nContent-Length: 3\r\n\
         Connection: TE\r\nTE: trailers\r\n\r\n"
    );
}

#[test]
fn forwarded_says_what_the_other_fields_say() {
    let rules = ProxyRules { forwarded: true, ..ProxyRules::default() };
    let said = |fields: &str, told: &Told<'_>| {
        let head = written(&format!("GET / HTTP/1.1\r\nHost: a:80\r\n{fields}\r\n"), told);
        assert!(!head.to_ascii_lowercase().contains("x-forwarded-"), "{head}");
        let mut values = head.lines().filter_map(|line| line.strip_prefix("Forwarded: "));
        let value = values.next().unwrap_or_default().to_owned();
        assert_eq!(values.next(), None, "{head}");
        value
    };
    let own = "for=192.0.2.1;host=\"a:80\";proto=http";
    assert_eq!(said("Forwarded: for=x\r\nX-Forwarded-For: y\r\n", &told(&rules)), own, "of a client");
    let believed = |field| Told { believed: Some(field), ..told(&rules) };
    assert_eq!(said("Forwarded: for=x\r\n", &believed(ForwardedField::Forwarded)), format!("for=x, {own}"));
    assert_eq!(
        said(
            "X-Forwarded-For: 2001:db8::1, 192.0.2.9, 192.0.2.8:5123\r\n",
            &believed(ForwardedField::XForwardedFor)
        ),
        format!("for=\"[2001:db8::1]\", for=192.0.2.9, for=\"192.0.2.8:5123\", {own}")
    );
    let at_socket = Told { peer: Peer::Unix, client: TransportInfo::plain(Peer::Unix), ..told(&rules) };
    assert_eq!(said("", &at_socket), "host=\"a:80\";proto=http");
}

#[test]
fn what_a_trusted_proxy_says_is_passed_on() {
    let rules = ProxyRules::default();
    let mut told = told(&rules);
    told.believed = Some(ForwardedField::XForwardedFor);
    told.client.peer = Peer::Inet(([203, 0, 113, 9], 0).into());
    let head = written(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Host: b\r\nForwarded: for=203.0.113.9\r\n\r\n",
        &told,
    );
    for line in ["X-Forwarded-For: 203.0.113.9, 192.0.2.1", "X-Real-IP: 203.0.113.9", "X-Forwarded-Host: a"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    // What the proxy may not write itself, a client could.
    assert!(!head.contains("\r\nForwarded:"), "{head}");
    told.believed = Some(ForwardedField::Forwarded);
    let head = written(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nForwarded: for=203.0.113.9\r\n\r\n",
        &told,
    );
    assert!(
        head.contains("\r\nForwarded: for=203.0.113.9\r\n")
            && head.contains("\r\nX-Forwarded-For: 192.0.2.1\r\n"),
        "{head}"
    );
}

#[test]
fn rules_set_fields_and_leave_them_out() {
    let field = |name: &str, value: &str| (name.as_bytes().into(), value.as_bytes().into());
    let fields = vec![field("X-Site", "shop"), field("cookie", ""), field("X-Forwarded-Proto", "https")];
    let rules = ProxyRules { host: Some(b"app.internal".as_slice().into()), fields, ..ProxyRules::default() };
    let head = written("GET / HTTP/1.1\r\nHost: a\r\nCookie: b=c\r\nX-Site: other\r\n\r\n", &told(&rules));
    assert_eq!(
        head,
        "GET / HTTP/1.1\r\nHost: app.internal\r\nX-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Host: a\r\n\
         Via: 1.1 flash\r\nX-Site: shop\r\nX-Forwarded-Proto: https\r\n\r\n"
    );
}

#[test]
fn the_path_is_the_one_that_rules_were_asked_about() {
    let rules = ProxyRules::default();
    for (path, expected) in [
        ("/", "/"),
        ("/a%20b/%C3%A9?x=/../y", "/a%20b/%C3%A9?x=/../y"),
        ("/@scope%2Fname", "/@scope%2Fname"),
        ("/a//b", "/a//b"),
        ("//evil.example/admin", "/evil.example/admin"),
        ("/public/../admin", "/admin"),
        ("/public/%2e%2E/admin?x", "/admin?x"),
        ("/public%2f..%2fadmin", "/admin"),
        ("/a/./b", "/a/b"),
    ] {
        assert_eq!(target(path, &told(&rules)), expected, "{path}");
    }
    let rules = ProxyRules { base: b"/v2".as_slice().into(), ..ProxyRules::default() };
    let told = Told { strip_prefix: b"/api", ..told(&rules) };
    for (path, expected) in [
        ("/api", "/v2/"),
        ("/api/", "/v2/"),
        ("/api/a%20b?c", "/v2/a%20b?c"),
        ("/%61pi/a", "/v2/a"),
        ("/%61pi", "/v2/"),
        ("//api", "/v2/"),
        ("/x/../api", "/v2/"),
        ("/api/../other", "/v2/other"),
        ("/api//x/admin", "/v2/x/admin"),
        ("/apis", "/v2/apis"),
    ] {
        assert_eq!(target(path, &told), expected, "{path}");
    }
}

#[test]
fn websocket_is_asked_for_anew() {
    let rules = ProxyRules::default();
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\n";
    let head = written(ask, &told(&rules));
    assert!(
        head.ends_with("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            && head.contains("Sec-WebSocket-Key: x")
    );
    for other in [
        ask.replace("WebSocket\r", "h2c\r"),
        ask.replace(", Upgrade", ""),
        ask.replace("GET", "POST"),
        ask.replace("HTTP/1.1\r\nHost", "HTTP/1.0\r\nHost"),
    ] {
        let version = if other.contains("1.0") { Version::Http10 } else { Version::Http11 };
        assert!(!written(&other, &Told { version, ..told(&rules) }).contains("Upgrade:"), "{other}");
    }
}

#[test]
fn a_body_has_its_length_and_a_trace_its_parent() {
    let rules = ProxyRules::default();
    let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head = written(chunked, &Told { body: ToldBody::Length(7), ..told(&rules) });
    assert!(head.contains("Content-Length: 7\r\n") && !head.contains("Transfer-Encoding"), "{head}");
    let empty = written("POST / HTTP/1.1\r\nHost: a\r\n\r\n", &told(&rules));
    assert!(empty.contains("Content-Length: 0\r\n"), "{empty}");
    let own = TraceParent { trace_id: [1; 16], parent_id: [2; 8], flags: 1 };
    let traced = "GET / HTTP/1.1\r\nHost: a\r\ntraceparent: 00-03030303030303030303030303030303-0404040404040404-01\r\n\r\n";
    let passed = written(traced, &Told { trace: trace::Told { is_valid: true, own: None }, ..told(&rules) });
    assert!(passed.contains("-0404040404040404-01\r\n"), "{passed}");
    let own =
        written(traced, &Told { trace: trace::Told { is_valid: true, own: Some(own) }, ..told(&rules) });
    assert!(own.contains(&format!("traceparent: 00-{}-{}-01\r\n", "01".repeat(16), "02".repeat(8))), "{own}");
}

#[test]
fn paths_that_can_be_read_in_two_ways_are_found() {
    for (path, is) in [
        ("/a;b/c", false),
        ("/a.b/..c", false),
        ("/public/..;/admin", true),
        ("/public/..;x=y/admin", true),
        ("/public/%2e%2e%3b/admin", true),
        ("/public/..\\admin", true),
        ("/public\\..\\admin", true),
        ("/a/.;x", true),
    ] {
        assert_eq!(is_ambiguous(&SitePath::parse(path.as_bytes()).unwrap()), is, "{path}");
    }
}
