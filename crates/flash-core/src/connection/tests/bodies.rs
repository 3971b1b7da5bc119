//! Request bodies are dropped as they arrive, and the next request begins directly behind them.

use super::*;

const AND_THEN: &str = "GET /middle.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn with_length(length: u64) -> String {
    format!("GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

const CHUNKED: &str = "GET /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_body_is_waited_for_and_dropped() {
    // Bodies that look like requests are the point of smuggling them (RFC 9112 §11.2).
    let body = get("/missing");
    let in_chunks = format!("{CHUNKED}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for request in [with_length(body.len() as u64) + &body, in_chunks] {
        for pieces in [&[][..], &[1], &[7], &[request.len() - 1, 1]] {
            let client = world().exchange((request.clone() + AND_THEN).as_bytes(), pieces, &[]);
            let all = replies(&client.got, &[]);
            assert_eq!(all.len(), 2, "in {pieces:?}");
            assert_eq!((&*all[0].body, &*all[1].body), (text(100), text(6_000)));
        }
    }
}

#[test]
fn nothing_is_answered_before_the_body_has_ended() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, with_length(4).as_bytes());
    assert_eq!(world.receive(&mut client, b"abc"), Waits::ForBytes);
    assert!(client.got.is_empty());
    world.receive(&mut client, b"d");
    assert_eq!(reply(&client.got).body, text(100));
}

#[test]
fn a_body_is_not_kept() {
    let mut world = world();
    let mut client = world.connect();
    // The head comes in two pieces, so that there was a reason to keep something.
    let head = with_length(1 << 20);
    world.receive(&mut client, &head.as_bytes()[..20]);
    world.receive(&mut client, &head.as_bytes()[20..]);
    for _ in 0..64 {
        assert_eq!(client.connection.h1().input().capacity(), 0, "not a byte of it, and no room for one");
        assert!(client.got.is_empty());
        world.receive(&mut client, &[b'x'; 16 << 10]);
    }
    assert_eq!(reply(&client.got).status, 200);
}

/// RFC 9110 §10.1.1.
#[test]
fn a_client_that_asks_is_told_to_continue() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(
        &mut client,
        b"GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.got, b"HTTP/1.1 100 Continue\r\n\r\n");
    world.receive(&mut client, b"abc");
    assert_eq!(statuses(&client.got), [100, 200]);
}

#[test]
fn without_a_body_nobody_is_told_to_continue() {
    let got = world().ask("GET /small.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(statuses(&got), [200]);
}

#[test]
fn bodies_that_are_too_large_or_unwanted_are_not_waited_for() {
    let post = "POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n";
    let expects = "GET / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n";
    let put = "PURGE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let too_much = &with_length((1 << 20) + 1);
    for (request, status) in [(too_much.as_str(), 413), (post, 405), (expects, 417), (put, 501)] {
        let mut world = world();
        let mut client = world.connect();
        assert_eq!(world.receive(&mut client, request.as_bytes()), Waits::ForBytes, "{status}");
        let reply = reply(&client.got);
        assert_eq!((reply.status, reply.field("Connection")), (status, Some("close")));
        assert!(client.write_is_shut, "it lingers, or the client's bytes would reset the response away");
        let before = client.got.len();
        world.receive(&mut client, get("/small.txt").as_bytes());
        assert_eq!(client.got.len(), before, "what follows is a body's, not a request");
    }
}

#[test]
fn a_chunked_body_is_too_large_when_it_becomes_so() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, CHUNKED.as_bytes());
    for _ in 0..16 {
        assert!(client.got.is_empty());
        world.receive(&mut client, format!("10000\r\n{}\r\n", "x".repeat(1 << 16)).as_bytes());
    }
    assert!(client.got.is_empty(), "exactly the limit");
    world.receive(&mut client, b"1\r\nx");
    assert_eq!(reply(&client.got).status, 413);
    assert!(client.write_is_shut);
}

#[test]
fn a_broken_chunk_is_refused() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, CHUNKED.as_bytes());
    world.receive(&mut client, b"2\r\nabc");
    assert_eq!(reply(&client.got).status, 400);
    assert!(client.write_is_shut);
}

#[test]
fn options_takes_a_body_too() {
    let got =
        world().ask("OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi".to_owned() + AND_THEN);
    assert_eq!(statuses(&got), [204, 200]);
}
