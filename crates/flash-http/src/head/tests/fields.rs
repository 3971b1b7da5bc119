//! Field lines (RFC 9112 §5), framing (§6), and the fields that the server acts upon.

use super::*;

/// A request of version 1.1 with these lines besides its Host.
fn with(lines: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n")
}

fn lines(values: Values<'_>) -> Vec<&str> {
    values.lines().map(|value| str::from_utf8(value).expect("ASCII")).collect()
}

#[test]
fn rfc9112_5_names_in_any_case_and_values_without_the_blanks_around_them() {
    let text = with("rEFERER:a\r\nUser-Agent: \t b\t c \t\r\nX:\r\nX-Y: \u{e9}\t\r\n");
    let head = head(&text);
    assert_eq!(head.referer, Some(&b"a"[..]));
    assert_eq!(head.user_agent, Some(&b"b\t c"[..]));
}

#[test]
fn rfc9112_5_1_names_are_tokens_before_a_colon() {
    for line in [
        "A : b",
        "A\t: b",
        ": b",
        "A",
        "A b: c",
        "A\u{e9}: b",
        "A(: b",
        "\0: b",
        "A\r: b",
        "\"A\": b",
        "A@: b",
    ] {
        assert_eq!(refused(with(&format!("{line}\r\n"))), 400, "{line:?}");
    }
}

#[test]
fn rfc9112_5_2_lines_are_not_folded() {
    assert_eq!(refused(with("A: b\r\n c\r\n")), 400);
    assert_eq!(refused(with("A: b\r\n\tc\r\n")), 400);
    assert_eq!(refused(with("A: b\r\n \r\n")), 400);
    // RFC 9112 §2.2: nor is there a blank before the first one.
    assert_eq!(refused("GET / HTTP/1.1\r\n Host: h\r\n\r\n"), 400);
}

#[test]
fn rfc9110_5_5_values_hold_no_control_characters() {
    for byte in (0..=255u8).filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        let text = [b"GET / HTTP/1.1\r\nHost: h\r\nA: b", &[byte][..], b"c\r\n\r\n"].concat();
        let allowed = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
        assert_eq!(parse(&text, &Limits::default()).is_ok(), allowed, "{byte:#x}");
    }
}

#[test]
fn rfc9112_2_2_lines_end_in_crlf() {
    for line in ["A: b\n", "A: b\rc\r\n", "A: b\r", "A: b\n\r\n", "A: b\r\r\n"] {
        assert_eq!(refused(with(line)), 400, "{line:?}");
    }
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: h\r\n\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: h\r\n\rA"), 400);
}

#[test]
fn rfc9112_3_2_host_once_and_valid() {
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(refused(with("Host: h\r\n")), 400);
    assert_eq!(refused(with("host:\r\n")), 400);
    assert_eq!(head("GET / HTTP/1.0\r\n\r\n").host, None);
    let host = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for good in
        ["", "a.b-c_d~e", "a:", "a:80", "[::1]", "[::1]:80", "[v1.a:b]", "127.0.0.1:8080", "%41!$&'()*+,;="]
    {
        assert_eq!(head(&host(good)).host, Some(good.as_bytes()));
    }
    for bad in [
        "a b", "a/b", "a@b", "a:b", "a:80:80", "a?b", "a#b", "[::1", "::1", "[]", "[::1]a", "[a]:b", "a[b]",
        "a\\b", "<a>", "\u{e9}", "a\tb", "\"a\"",
    ] {
        assert_eq!(refused(host(bad)), 400, "{bad:?}");
    }
}

#[test]
fn rfc9112_9_3_persistence() {
    let keeps = |version: &str, line: &str| {
        head(&format!("GET / {version}\r\nHost: h\r\n{line}\r\n")).framing.keep_alive
    };
    assert!(keeps("HTTP/1.1", ""));
    assert!(keeps("HTTP/1.1", "Connection: keep-alive, Upgrade\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: CLOSE\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: te ,\tclose\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: te\r\nConnection: close\r\n"));
    assert!(keeps("HTTP/1.1", "Connection: closed, xclose, \"close\"\r\n"));
    assert!(!keeps("HTTP/1.0", ""));
    assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

#[test]
fn rfc9112_6_3_one_content_length() {
    assert_eq!(head(&with("Content-Length: 0\r\n")).body, Body::None);
    assert_eq!(head(&with("content-length:\t007 \r\n")).body, Body::Length(7));
    assert_eq!(head(&with("Content-Length: 18446744073709551615\r\n")).body, Body::Length(u64::MAX));
    for bad in [
        "",
        "+1",
        "-1",
        "1,1",
        "1, 1",
        "1 1",
        "0x1",
        "1.0",
        "1;",
        "\"1\"",
        "a",
        "18446744073709551616",
        "\u{ff11}",
    ] {
        assert_eq!(refused(with(&format!("Content-Length: {bad}\r\n"))), 400, "{bad:?}");
    }
    assert_eq!(refused(with("Content-Length: 1\r\nContent-Length: 1\r\n")), 400);
    assert_eq!(refused(with("Content-Length: 1\r\nContent-Length: 2\r\n")), 400);
}

#[test]
fn rfc9112_6_1_chunked_alone() {
    assert_eq!(head(&with("Transfer-Encoding: Chunked\r\n")).body, Body::Chunked);
    for bad in [
        "",
        "gzip",
        "gzip, deflate",
        "gzip, x chunked",
        "gzip, chunked, chunked",
        "gzip, chunked, deflate",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        ";a=b, chunked",
        "identity",
        "chunked;a=b",
        "x chunked",
        "\"chunked\"",
    ] {
        assert_eq!(refused(with(&format!("Transfer-Encoding: {bad}\r\n"))), 400, "{bad:?}");
    }
    assert_eq!(refused(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 400);
    assert_eq!(refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

#[test]
fn rfc9112_6_1_a_coding_that_we_do_not_know_is_not_implemented() {
    for coded in
        ["gzip, chunked", "gzip , Chunked", "x-new;q=\"1\", deflate ; a, chunked", "chunked2,chunked"]
    {
        assert_eq!(refused(with(&format!("Transfer-Encoding: {coded}\r\n"))), 501, "{coded:?}");
    }
    assert_eq!(refused(with("Transfer-Encoding: gzip\r\nA: b\r\nTransfer-Encoding: chunked\r\n")), 501);
    assert_eq!(refused(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n")), 400);
    assert_eq!(refused(with("Transfer-Encoding: gzip, chunked\r\nContent-Length: 1\r\n")), 400);
}

#[test]
fn rfc9112_6_3_never_both_lengths() {
    assert_eq!(refused(with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")), 400);
    assert_eq!(refused(with("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")), 400);
}

#[test]
fn rfc9110_10_1_1_expectations() {
    let expects = |line: &str| head(&with(line)).expect;
    assert_eq!(expects("Expect: 100-Continue\r\n"), Expect::Continue);
    assert_eq!(expects("Expect: 100-continue, 100-continue\r\n"), Expect::Continue);
    assert_eq!(expects("Expect:\r\n"), Expect::None);
    assert_eq!(expects("Expect: 200-ok\r\n"), Expect::Other);
    assert_eq!(expects("Expect: 200-ok\r\nExpect: 100-continue\r\n"), Expect::Other);
    assert_eq!(expects("Expect: 100-continue, a\r\n"), Expect::Other);
    assert_eq!(head("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expect, Expect::None);
}

#[test]
fn rfc9110_5_3_lists_in_several_lines() {
    let text = with(
        "If-None-Match: \"a\"\r\nA: b\r\nif-none-match:\"b\" \r\nIf-None-Matches: x\r\nIF-NONE-MATCH:\r\n",
    );
    let head = head(&text);
    assert_eq!(lines(head.if_none_match), ["\"a\"", "\"b\"", ""]);
    assert!(head.if_none_match.is_present());
    assert!(!head.if_match.is_present());
    assert_eq!(lines(head.if_match), [""; 0]);
}

#[test]
fn lists_end_with_their_head() {
    let text = with("Accept-Encoding: a\r\nAccept-Encoding: b\r\n") + "Accept-Encoding: c\r\n\r\n";
    let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), &Limits::default()) else {
        panic!("complete")
    };
    assert_eq!(lines(head.accept_encoding), ["a", "b"]);
}

#[test]
fn single_values_that_come_twice_are_as_good_as_absent() {
    let text = with("Range: a\r\nIf-Modified-Since: b\r\nIf-Unmodified-Since: c\r\nIf-Range: d\r\n");
    let once = head(&text);
    assert_eq!((once.range, once.if_modified_since), (Some(&b"a"[..]), Some(&b"b"[..])));
    assert_eq!((once.if_unmodified_since, once.if_range), (Some(&b"c"[..]), Some(&b"d"[..])));
    for times in 2..4 {
        let text = with(&"Range: a\r\nIf-Modified-Since: b\r\nIf-Unmodified-Since: c\r\n".repeat(times));
        let often = head(&text);
        assert_eq!((often.range, often.if_modified_since, often.if_unmodified_since), (None, None, None));
    }
}

#[test]
fn rfc9110_13_1_5_a_range_under_an_unclear_condition_is_not_a_range() {
    let text = with("Range: bytes=0-1\r\nIf-Range: \"a\"\r\nIf-Range: \"b\"\r\n");
    assert_eq!((head(&text).range, head(&text).if_range), (None, None));
}

#[test]
fn rfc6585_5_fields_are_bounded() {
    let limits = Limits { fields_max: 3, ..Limits::default() };
    assert!(parse(with("A: b\r\nA: b\r\n").as_bytes(), &limits).is_ok());
    assert_eq!(refused_within(with("A: b\r\nA: b\r\nA: b\r\n"), &limits), 431);
}

#[test]
fn rfc6585_5_heads_are_bounded() {
    let text = with("A: b\r\n");
    let limits = |head_bytes_max| Limits { head_bytes_max, ..Limits::default() };
    assert!(matches!(parse(text.as_bytes(), &limits(text.len())), Ok(Parsed::Complete { .. })));
    assert_eq!(refused_within(&text, &limits(text.len() - 1)), 431);
    // No end of the head is waited for.
    assert_eq!(refused_within(&text[..text.len() - 1], &limits(text.len() - 1)), 431);
    assert!(matches!(parse(&text.as_bytes()[..text.len() - 1], &limits(text.len())), Ok(Parsed::Incomplete)));
}
