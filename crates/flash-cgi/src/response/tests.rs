//! RFC 3875 §6 case by case, refusals with their reasons, and laws: any cut gets the same verdict.

use proptest::prelude::*;

use flash_http::Status;

use super::*;

fn read(input: &str) -> Result<Parsed<'_>, &'static str> {
    parse(input.as_bytes(), &Limits::default()).map_err(|bad| bad.reason)
}

fn head(input: &str) -> Head<'_> {
    match read(input) {
        Ok(Parsed::Complete { head, bytes }) => {
            assert_eq!(bytes, input.len(), "{input}");
            head
        }
        other => panic!("{input}: {other:?}"),
    }
}

fn fields(input: &str) -> String {
    let mut out = Vec::new();
    head(input).write_fields(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn rfc3875_6_2_1_documents() {
    let plain = head("Content-Type: text/plain\n\n");
    assert_eq!(
        (plain.kind, plain.status, plain.reason, plain.content_length),
        (Kind::Document, Status::OK, &b""[..], None)
    );
    let full = head("status:404  Gone fishing \r\nCONTENT-LENGTH: 12\r\nContent-Type: a/b\r\n\r\n");
    assert_eq!((full.kind, full.status), (Kind::Document, Status::NOT_FOUND));
    assert_eq!((full.reason, full.content_length), (&b"Gone fishing"[..], Some(12)));
    // Without a type, and mixed ends of lines.
    assert_eq!(head("Status: 204\r\n\n").status, Status::NO_CONTENT);
    assert_eq!(head("X-A: b\n\r\n").kind, Kind::Document);
}

#[test]
fn files_that_are_handed_on() {
    assert_eq!(head("Content-Type: a/b\n\n").hand_off, None);
    let path = head("x-accel-redirect: /a b?c\nContent-Type: a/b\nX-Accel-Buffering: no\n\n");
    assert_eq!((path.kind, path.hand_off), (Kind::Document, Some(HandOff::Path(b"/a b?c"))));
    assert_eq!(head("X-Sendfile: /srv/a\n\n").hand_off, Some(HandOff::File(b"/srv/a")));
    assert_eq!(read("X-Sendfile: /a\nX-Accel-Redirect: /b\n\n"), Err("several fields that hand files on"));
    // Nobody else gets these fields.
    let said = "X-Accel-Redirect: /a\nX-Accel-Expires: 1\nX-Acceleration: 9\nX-Sendfile-Type: b\n\n";
    assert_eq!(fields(said), "X-Acceleration: 9\r\nX-Sendfile-Type: b\r\n");
}

#[test]
fn rfc3875_6_2_2_local_redirects() {
    for (input, path) in [
        ("Location: /a?b=c\n\n", "/a?b=c"),
        ("Location: /\n\n", "/"),
        ("Content-Type: text/html\nLocation: /a\nContent-Length: 0\n\n", "/a"),
        ("Location: /\u{e9}\nConnection: close\n\n", "/\u{e9}"),
    ] {
        assert_eq!(head(input).kind, Kind::LocalRedirect(path.as_bytes()), "{input}");
    }
    // Only the client can follow these, or ought to see what comes with them.
    for input in [
        "Location: //b/a\n\n",
        "Location: /a b\n\n",
        "Location: /a#b\n\n",
        "Location: a\n\n",
        "Location: /a\nSet-Cookie: a=b\n\n",
    ] {
        let head = head(input);
        assert_eq!((head.kind, head.status), (Kind::ClientRedirect, Status::FOUND), "{input}");
    }
}

#[test]
fn rfc3875_6_2_3_and_4_client_redirects() {
    let given = |input| (head(input).kind, head(input).status.0);
    assert_eq!(given("Location: http://b/\n\n"), (Kind::ClientRedirect, 302));
    assert_eq!(given("Location: http://b/\nContent-Type: a/b\n\n"), (Kind::ClientRedirectWithDocument, 302));
    assert_eq!(given("Status: 301 Moved\nLocation: /a\n\n"), (Kind::ClientRedirect, 301));
    assert_eq!(
        given("Status: 302\nLocation: /a\nContent-Type: a/b\n\n"),
        (Kind::ClientRedirectWithDocument, 302)
    );
    assert_eq!(given("Status: 201\nLocation: /a\n\n"), (Kind::Document, 201));
    assert_eq!(given("Status: 304\nLocation: /a\n\n"), (Kind::Document, 304));
    assert_eq!(fields("Status: 302\nlocation: /a\nX: y\n\n"), "location: /a\r\nX: y\r\n");
}

#[test]
fn rfc3875_6_3_4_fields_are_passed_on_but_for_those_of_connections() {
    let input = "Content-Type:a/b\nSet-Cookie: a\nSet-Cookie:  b \nX-Empty:\nConnection: close\nKEEP-ALIVE: 1\n\
                 Transfer-Encoding: chunked\nTE: x\nTrailer: x\nUpgrade: x\nProxy-Connection: x\nDate: x\nServer: x\n\
                 Status: 200\nContent-Length: 5\nStatusx: 1\n\n";
    assert_eq!(
        fields(input),
        "Content-Type: a/b\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nX-Empty: \r\nStatusx: 1\r\n"
    );
}

#[test]
fn what_is_no_head_is_refused_with_its_reason() {
    for (input, reason) in [
        ("\n", "no field before the empty line"),
        ("\r\n", "no field before the empty line"),
        ("<html>", "a line that is no field"),
        ("Content-Type\n", "a line that is no field"),
        ("HTTP/1.1 200 OK\n", "a status line, which only nph- scripts write"),
        (": a\n", "a field without a name"),
        ("A : b\n", "a line that is no field"),
        ("A: b\n c\n", "a folded line"),
        ("A: b\rc", "a CR without its LF"),
        ("A: b\0", "a control character in a field"),
        ("A\0", "a line that is no field"),
        ("A: b\x7f", "a control character in a field"),
        ("Status: 200\nStatus: 200\n", "several Status fields"),
        ("Location: /a\nLocation: /b\n", "several Location fields"),
        ("Content-Type: a\nContent-type: a\n", "several Content-Type fields"),
        ("Content-Length: 1\nContent-Length: 1\n", "several Content-Length fields"),
        ("Content-Length: +1\n", "malformed Content-Length"),
        ("Content-Length: 99999999999999999999\n", "malformed Content-Length"),
        ("Status: 20\n", "malformed Status"),
        ("Status: OK\n", "malformed Status"),
        ("Status: 2000\n", "malformed Status"),
        ("Status: \n", "malformed Status"),
        ("Status: 100\n", "a Status that is not between 200 and 599"),
        ("Status: 101 Switching\n", "a Status that is not between 200 and 599"),
        ("Status: 600\n", "a Status that is not between 200 and 599"),
        ("Location:\n\n", "an empty Location"),
    ] {
        assert_eq!(read(input), Err(reason), "{input:?}");
    }
}

#[test]
fn heads_without_end_reach_a_limit() {
    let limits = Limits { head_bytes_max: 20, fields_max: 2 };
    let verdict = |input: &str| parse(input.as_bytes(), &limits).map(|parsed| parsed != Parsed::Incomplete);
    assert_eq!(verdict("A: b\nA: b\n\n"), Ok(true));
    assert_eq!(verdict("A: b\nA: b\nA"), Err(Bad { reason: "too many fields" }));
    assert_eq!(verdict("A: 345678901234567\n\n"), Ok(true));
    assert_eq!(verdict("A: 3456789012345678\n\n"), Err(Bad { reason: "the head is too long" }));
    assert_eq!(verdict("A: 345678901234567"), Ok(false));
}

#[test]
fn a_whole_response_has_a_status_line() {
    let read = |input: &'static str| match parse_nph(input.as_bytes(), &Limits::default()) {
        Ok(Parsed::Incomplete) => Err("incomplete"),
        Ok(Parsed::Complete { head, bytes }) => {
            let mut fields = Vec::new();
            head.write_fields(&mut fields);
            assert!(head.kind == Kind::Document && input.as_bytes()[..bytes].ends_with(b"\n"));
            Ok((head.status.0, head.reason, head.content_length, String::from_utf8(fields).unwrap()))
        }
        Err(Bad { reason }) => Err(reason),
    };
    let whole =
        "HTTP/1.1 302 Over There\r\nLocation: /a\r\nStatus: 500\r\nServer: own\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(read(whole), Ok((302, &b"Over There"[..], Some(2), "Location: /a\r\n".into())));
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end]), Err("incomplete"), "{end}");
    }
    assert_eq!(read("HTTP/1.0 200\n\n"), Ok((200, &b""[..], None, String::new())));
    for (input, reason) in [
        ("Content-Type: a\n\n", "a response that does not begin with a status line of HTTP/1"),
        ("HTTP/2.0 200 OK\n", "a response that does not begin with a status line of HTTP/1"),
        ("HTTP/1.1\n", "a malformed status line"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "a Status that is not between 200 and 599"),
        ("HTTP/1.1 200 OK\nA b\n\n", "a line that is no field"),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n",
            "chunks of HTTP/1 for a client that speaks another protocol",
        ),
    ] {
        assert_eq!(read(input), Err(reason), "{input:?}");
    }
}

#[test]
fn nph_is_a_name() {
    assert!(is_nph(b"/cgi-bin/nph-a") && is_nph(b"nph-"));
    assert!(!is_nph(b"/nph-bin/a") && !is_nph(b"/cgi-bin/a-nph-") && !is_nph(b""));
}

/// Lines that are often right.
fn output() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "Status: 200 OK",
        "Status: 302",
        "Status: 99",
        "Content-Type: a/b",
        "Content-Length: 7",
        "Location: /a",
        "Location: http://b",
        "Set-Cookie: a=b",
        "Connection: x",
        " folded",
        "no field",
        "A: \u{1}",
        "B:",
        "",
    ]);
    let end = prop::sample::select(vec!["\n", "\r\n", "\r", ""]);
    let weighted = prop_oneof![9 => Just("\n"), 1 => end];
    prop::collection::vec((line, weighted), 0..8)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| format!("{line}{end}")).collect())
}

proptest! {
    #[test]
    fn every_cut_gets_the_verdict_of_the_whole(output in output()) {
        let limits = Limits { head_bytes_max: 90, fields_max: 5 };
        let input = output.as_bytes();
        let whole = parse(input, &limits);
        let mut seen = 0;
        let mut first = Ok(Parsed::Incomplete);
        for end in 0..=input.len() {
            let now = parse(&input[..end], &limits);
            let reason = may_progress(&input[..end], seen, &limits);
            let complete = matches!(now, Ok(Parsed::Complete { .. }));
            prop_assert!(reason || !complete);
            seen = end;
            if now != Ok(Parsed::Incomplete) {
                first = now;
                break;
            }
        }
        prop_assert_eq!(first, whole);
    }

    /// Whatever a program wrote, the client gets lines that are well-formed.
    #[test]
    fn fields_are_fields(output in prop_oneof![output(), "[A-Za-z: \r\n\\x00-\u{ff}]{0,60}\n\n"]) {
        let Ok(Parsed::Complete { head, bytes }) = parse(output.as_bytes(), &Limits::default()) else { return Ok(()) };
        prop_assert!(output.as_bytes()[..bytes].ends_with(b"\n") && (200..600).contains(&head.status.0));
        let mut request = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        head.write_fields(&mut request);
        request.extend_from_slice(b"\r\n");
        let read = flash_http::head::parse(&request, &flash_http::Limits::default());
        let Ok(flash_http::Parsed::Complete { head: other, bytes }) = read else { panic!("{}", request.escape_ascii()) };
        prop_assert_eq!(bytes, request.len());
        prop_assert!(other.fields.skip(1).eq(head.fields()));
    }
}

#[test]
fn a_response_of_a_server_says_where_it_ends() {
    let read = |input: &'static str| match parse_http(input.as_bytes(), &Limits::default()) {
        Ok(Parsed::Incomplete) => Err("incomplete"),
        Ok(Parsed::Complete { head, .. }) => {
            let mut fields = Vec::new();
            head.write_fields(&mut fields);
            let OfConnection { is_chunked, persists, upgrade, .. } = head.of_connection;
            assert!(upgrade.is_none() || head.status.0 == 101);
            let fields = String::from_utf8(fields).unwrap();
            Ok((head.status.0, head.content_length, is_chunked, persists, fields))
        }
        Err(Bad { reason }) => Err(reason),
    };
    for (input, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", (200, Some(2), false, true, "")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", (200, None, true, true, "")),
        ("HTTP/1.0 200 OK\r\nA: b\r\n\r\n", (200, None, false, false, "A: b\r\n")),
        (
            "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n\r\n",
            (200, None, false, true, ""),
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: x-a , close\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
            (200, None, false, false, "X-B: 2\r\n"),
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            (103, None, false, true, "Link: </a.css>\r\n"),
        ),
        (
            "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            (101, None, false, true, ""),
        ),
        ("HTTP/1.1 200 OK\r\nStatus: my own\r\n\r\n", (200, None, false, true, "")),
    ] {
        let (status, length, is_chunked, persists, fields) = expected;
        assert_eq!(read(input), Ok((status, length, is_chunked, persists, fields.to_owned())), "{input:?}");
    }
    for (input, reason) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
            "several Content-Length fields",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n", "malformed Content-Length"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n", "malformed Content-Length"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
            "both Transfer-Encoding and Content-Length",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "a transfer coding that nobody asked for",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "several Transfer-Encoding fields",
        ),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a Transfer-Encoding of HTTP/1.0"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n", "a line that is no field"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "a folded line"),
        ("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", "a control character in a field"),
        ("HTTP/1.1 099 Low\r\n\r\n", "a status that is not between 100 and 599"),
        ("HTTP/1.1 600 High\r\n\r\n", "a status that is not between 100 and 599"),
        ("HTTP/2 200\r\n\r\n", "a response that does not begin with a status line of HTTP/1"),
        ("SSH-2.0-x\r\n", "a response that does not begin with a status line of HTTP/1"),
    ] {
        assert_eq!(read(input), Err(reason), "{input:?}");
    }
}
