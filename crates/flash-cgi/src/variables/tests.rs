//! RFC 3875 §4.1 case by case, fields that must not come through, and laws against the plain way to do it.

use flash_http::{Limits, Parsed, Scheme, head};
use proptest::prelude::*;

use super::*;

fn ends() -> Ends {
    Ends::Inet {
        local: "192.0.2.1:8080".parse().unwrap(),
        peer: "[::ffff:198.51.100.7]:40000".parse().unwrap(),
    }
}

/// The variables of a request whose lines end in LF here.
fn of_ends(request: &str, ends: &Ends) -> Variables {
    let input = format!("{}\r\n\r\n", request.replace('\n', "\r\n"));
    let Ok(Parsed::Complete { head, .. }) = head::parse(input.as_bytes(), &Limits::default()) else {
        panic!("not a head: {request}");
    };
    Variables::of_request(
        &head,
        head.framing.version.name(),
        Scheme::Http,
        &Server::new(b"Flash/1", b"/srv/www"),
        ends,
    )
}

fn of(request: &str) -> Variables {
    of_ends(request, &ends())
}

fn text(variables: &Variables) -> Vec<String> {
    let line = |(name, value): (&[u8], &[u8])| format!("{}={}", name.escape_ascii(), value.escape_ascii());
    variables.iter().map(line).collect()
}

/// One variable of a request with these fields besides Host; `None` when absent.
fn with(fields: &str, name: &str) -> Option<String> {
    let variables = of(&format!("POST / HTTP/1.1\nHost: h\n{fields}"));
    variables.get(name.as_bytes()).map(|value| value.escape_ascii().to_string())
}

#[test]
fn the_scheme_is_the_transports() {
    let input = b"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n";
    let Ok(Parsed::Complete { head, .. }) = head::parse(input, &Limits::default()) else { panic!("a head") };
    let of = |scheme| {
        Variables::of_request(
            &head,
            head.framing.version.name(),
            scheme,
            &Server::new(b"Flash/1", b"/srv/www"),
            &ends(),
        )
    };
    let (plain, encrypted) = (of(Scheme::Http), of(Scheme::Https));
    assert_eq!((plain.get(b"REQUEST_SCHEME"), plain.get(b"HTTPS")), (Some(&b"http"[..]), None));
    assert_eq!(
        (encrypted.get(b"REQUEST_SCHEME"), encrypted.get(b"HTTPS")),
        (Some(&b"https"[..]), Some(&b"on"[..]))
    );
}

#[test]
fn rfc3875_4_1_all_of_a_request() {
    let request =
        "GET /cgi-bin/a%20b/in%2dfo?x=1&y=%20 HTTP/1.1\nHost: www.example.org:8080\nUser-Agent: me\nX-One: 1";
    let mut variables = of(request);
    let split = Split { name: b"/cgi-bin/a b", info: b"/in-fo" };
    variables.add_script(&split, Some(b"/usr/lib/cgi-bin/a b"));
    assert_eq!(
        text(&variables),
        [
            "GATEWAY_INTERFACE=CGI/1.1",
            "SERVER_SOFTWARE=Flash/1",
            "DOCUMENT_ROOT=/srv/www",
            "REQUEST_SCHEME=http",
            "REDIRECT_STATUS=200",
            "REQUEST_METHOD=GET",
            "SERVER_PROTOCOL=HTTP/1.1",
            "QUERY_STRING=x=1&y=%20",
            "REQUEST_URI=/cgi-bin/a%20b/in%2dfo?x=1&y=%20",
            "SERVER_NAME=www.example.org",
            "SERVER_ADDR=192.0.2.1",
            "SERVER_PORT=8080",
            "REMOTE_ADDR=198.51.100.7",
            "REMOTE_HOST=198.51.100.7",
            "REMOTE_PORT=40000",
            "HTTP_HOST=www.example.org:8080",
            "HTTP_USER_AGENT=me",
            "HTTP_X_ONE=1",
            "SCRIPT_NAME=/cgi-bin/a b",
            "SCRIPT_FILENAME=/usr/lib/cgi-bin/a b",
            "PATH_INFO=/in-fo",
            "PATH_TRANSLATED=/srv/www/in-fo",
        ]
    );
}

#[test]
fn nothing_behind_the_script_is_absent_rather_than_empty() {
    let mut variables = Variables::default();
    variables.add_script(&Split { name: b"/a", info: b"" }, None);
    assert_eq!(text(&variables), ["SCRIPT_NAME=/a"]);
}

#[test]
fn request_lines_of_every_form() {
    let about = |line: &str| {
        let variables = of(&format!("{line}\nHost: field"));
        let get = |name: &[u8]| String::from_utf8(variables.get(name).unwrap().to_vec()).unwrap();
        [
            get(b"REQUEST_METHOD"),
            get(b"REQUEST_URI"),
            get(b"QUERY_STRING"),
            get(b"HTTP_HOST"),
            get(b"SERVER_NAME"),
        ]
    };
    assert_eq!(about("BREW /pot? HTTP/1.1"), ["BREW", "/pot?", "", "field", "field"]);
    assert_eq!(about("HEAD /a HTTP/1.0"), ["HEAD", "/a", "", "field", "field"]);
    assert_eq!(about("GET http://uri:81?q HTTP/1.1"), ["GET", "/?q", "q", "uri:81", "uri"]);
    assert_eq!(about("OPTIONS * HTTP/1.1"), ["OPTIONS", "*", "", "field", "field"]);
}

#[test]
fn rfc3875_4_1_14_names_without_ports() {
    let v6 =
        Ends::Inet { local: "[2001:db8::1]:80".parse().unwrap(), peer: "[2001:db8::2]:9".parse().unwrap() };
    let name = |request: &str, ends: &Ends| {
        let variables = of_ends(request, ends);
        let get = |name: &[u8]| {
            variables.get(name).map(|value| value.escape_ascii().to_string()).unwrap_or_default()
        };
        [get(b"SERVER_NAME"), get(b"SERVER_PORT"), get(b"REMOTE_ADDR")]
    };
    assert_eq!(name("GET / HTTP/1.1\nHost: [::1]:81", &ends())[0], "[::1]");
    assert_eq!(name("GET / HTTP/1.1\nHost: [::1]", &ends())[0], "[::1]");
    assert_eq!(name("GET / HTTP/1.1\nHost: a:", &ends())[0], "a");
    assert_eq!(name("GET / HTTP/1.1\nHost:", &ends()), ["192.0.2.1", "8080", "198.51.100.7"]);
    assert_eq!(name("GET / HTTP/1.0", &v6), ["[2001:db8::1]", "80", "2001:db8::2"]);
    assert_eq!(name("GET / HTTP/1.0", &Ends::Unix), ["localhost", "80", "127.0.0.1"]);
}

#[test]
fn fields_that_mislead_or_mean_nothing_here_are_not_passed_on() {
    for (field, variable) in [
        ("Proxy: http://evil", "HTTP_PROXY"),
        ("pROXY: http://evil", "HTTP_PROXY"),
        ("X_Real-IP: 1", "HTTP_X_REAL_IP"),
        ("X.Real-IP: 1", "HTTP_X_REAL_IP"),
        ("X.Real-IP: 1", "HTTP_X.REAL_IP"),
        ("Content-Length: 3", "HTTP_CONTENT_LENGTH"),
        ("Content-Type: a/b", "HTTP_CONTENT_TYPE"),
        ("Transfer-Encoding: chunked", "HTTP_TRANSFER_ENCODING"),
        ("Expect: 100-continue", "HTTP_EXPECT"),
        ("Connection: close", "HTTP_CONNECTION"),
        ("Keep-Alive: 5", "HTTP_KEEP_ALIVE"),
        ("Proxy-Connection: close", "HTTP_PROXY_CONNECTION"),
        ("TE: trailers", "HTTP_TE"),
        ("Trailer: x", "HTTP_TRAILER"),
        ("Upgrade: x", "HTTP_UPGRADE"),
        ("Proxy-Authorization: Basic eA==", "HTTP_PROXY_AUTHORIZATION"),
    ] {
        assert_eq!(with(field, variable), None, "{field}");
    }
    assert_eq!(with("Authorization: Basic eA==", "HTTP_AUTHORIZATION").as_deref(), Some("Basic eA=="));
    assert_eq!(with("Proxies: 1", "HTTP_PROXIES").as_deref(), Some("1"));
    // A client cannot strike out what a proxy says.
    let struck = "Connection: X-Forwarded-For\nX-Forwarded-For: 1";
    assert_eq!(with(struck, "HTTP_X_FORWARDED_FOR").as_deref(), Some("1"));
}

#[test]
fn rfc3875_4_1_2_lengths_and_types() {
    assert_eq!(with("Content-Length: 0012", "CONTENT_LENGTH").as_deref(), Some("12"));
    assert_eq!(with("Content-Length: 0", "CONTENT_LENGTH").as_deref(), Some("0"));
    assert_eq!(with("Transfer-Encoding: chunked", "CONTENT_LENGTH"), None);
    let mut variables = Variables::default();
    variables.add_content_length(1 << 40);
    assert_eq!(variables.get(b"CONTENT_LENGTH"), Some(&b"1099511627776"[..]));
    assert_eq!(with("A: b", "CONTENT_LENGTH"), None);
    assert_eq!(with("content-type: a/b;\tc=d", "CONTENT_TYPE").as_deref(), Some("a/b;\\tc=d"));
    assert_eq!(with("A: b", "CONTENT_TYPE"), None);
}

#[test]
fn rfc9110_5_3_values_of_one_name_are_joined() {
    assert_eq!(with("X-A: 1\nB: 2\nx-a: 3\nX-a:\nB: 4", "HTTP_X_A").as_deref(), Some("1, 3, "));
    assert_eq!(with("Cookie: a=1\nCookie: b=2", "HTTP_COOKIE").as_deref(), Some("a=1; b=2"));
    assert_eq!(with("Content-Type: a/b\nContent-Type: c/d", "CONTENT_TYPE").as_deref(), Some("a/b, c/d"));
    // A name whose variable is a server's own is not mixed up with it.
    assert_eq!(with("Software: 1\nSoftware: 2", "HTTP_SOFTWARE").as_deref(), Some("1, 2"));
}

#[test]
fn fastcgi_3_4_lengths_are_short_or_long() {
    let mut variables = Variables::default();
    variables.push(b"A", &[b'x'; 127]);
    variables.push(b"B", &[b'x'; 128]);
    pairs::push(&mut variables.pairs, b"", b"");
    let pairs = variables.as_pairs();
    assert_eq!(pairs[..3], [1, 127, b'A']);
    assert_eq!(pairs[3 + 127..][..6], [1, 0x80, 0, 0, 128, b'B']);
    assert_eq!(pairs[3 + 127 + 6 + 128..], [0, 0]);
}

#[test]
fn an_environment_is_names_and_values_and_nothing_can_be_slipped_in() {
    let mut variables = Variables::default();
    variables.push(b"A", b"1=2");
    variables.push(b"B", b"");
    variables.push(b"C", b"x\0LD_PRELOAD=/evil.so");
    assert_eq!(variables.env_block(), [&b"PATH="[..], PATH.as_bytes(), b"\0A=1=2\0B=\0C=x\0"].concat());
}

#[test]
fn pairs_from_elsewhere_are_whole_or_refused() {
    let variables = of("GET / HTTP/1.1\nHost: h");
    let pairs = variables.as_pairs();
    assert_eq!(Variables::from_pairs(pairs.to_vec()), Some(variables.clone()));
    assert_eq!(Variables::from_pairs(Vec::new()), Some(Variables::default()));
    assert_eq!(Variables::from_pairs(pairs[..pairs.len() - 1].to_vec()), None);
    for bad in [
        &b"\x00\x01x"[..],
        b"\x03\x01A=Bx",
        b"\x03\x01A\0Bx",
        b"\x01",
        b"\x80\x00\x00",
        b"\xff\xff\xff\xff\x01AB",
    ] {
        assert_eq!(Variables::from_pairs(bad.to_vec()), None, "{}", bad.escape_ascii());
    }
}

proptest! {
    #[test]
    fn what_is_pushed_is_there(pairs in prop::collection::vec(("[A-Z_]{1,200}", prop::collection::vec(1u8.., 0..300)), 0..8)) {
        let mut variables = Variables::default();
        for (name, value) in &pairs {
            variables.push(name.as_bytes(), value);
        }
        let read: Vec<_> = variables.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let pushed: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone())).collect();
        prop_assert_eq!(&read, &pushed);
        prop_assert_eq!(Variables::from_pairs(variables.as_pairs().to_vec()), Some(variables.clone()));
        let block = variables.env_block();
        let lines: Vec<_> = block.split(|&byte| byte == 0).skip(1).collect();
        let expected: Vec<_> = pushed.iter().map(|(name, value)| [name, &b"="[..], value].concat()).collect();
        prop_assert_eq!(&lines[..lines.len() - 1], &expected[..]);
    }

    /// Against the plain way: a list of names, searched each time.
    #[test]
    fn fields_become_variables(fields in prop::collection::vec(("[abx-]{1,3}|cookie|x_y|proxy|te|Content-Type", "[a-z]{0,70}"), 0..20)) {
        let lines: String = fields.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
        let variables = of(&format!("GET / HTTP/1.1\nHost: h{lines}"));
        let mut plain: Vec<(String, String)> = Vec::new();
        for (name, value) in &fields {
            let name = match name.as_str() {
                "x_y" | "proxy" | "te" => continue,
                "Content-Type" => "CONTENT_TYPE".into(),
                name => format!("HTTP_{}", name.to_uppercase().replace('-', "_")),
            };
            let mark = if name == "HTTP_COOKIE" { "; " } else { ", " };
            match plain.iter_mut().find(|(other, _)| *other == name) {
                Some((_, joined)) => *joined = format!("{joined}{mark}{value}"),
                None => plain.push((name, value.clone())),
            }
        }
        let mut got: Vec<_> = text(&variables).into_iter().skip_while(|line| line != "HTTP_HOST=h").skip(1).collect();
        let mut expected: Vec<_> = plain.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        got.sort();
        expected.sort();
        prop_assert_eq!(got, expected);
    }
}
