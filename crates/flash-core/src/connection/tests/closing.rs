//! How connections end: the `Connection` field, lingering after unread bytes, and closing when the server stops.

use super::*;

const CLOSE: &str = "GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// RFC 9112 §9.3.
#[test]
fn versions_and_tokens_decide() {
    for (request, connection, stays) in [
        ("GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n", None, true),
        (CLOSE, Some("close"), false),
        ("GET /small.txt HTTP/1.0\r\n\r\n", Some("close"), false),
        ("GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), true),
        ("GET /one-window.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close"), false),
        ("GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", None, true),
    ] {
        let mut world = world();
        let mut client = world.connect();
        let waits = world.receive(&mut client, request.as_bytes());
        assert_eq!(reply(&client.got).field("Connection"), connection, "{request}");
        assert_eq!(waits, if stays { Waits::ForBytes } else { Waits::Closed }, "{request}");
        assert!(!client.write_is_shut, "nothing can be unread: {request}");
    }
}

/// RFC 9112 §9.6.
#[test]
fn a_refusal_closes_after_a_moment_to_listen() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, b"GET / HTTP/1.1\nHost: a\r\n\r\n"), Waits::ForBytes);
    let reply = reply(&client.got);
    assert_eq!((reply.status, reply.field("Connection")), (400, Some("close")));
    assert!(client.write_is_shut);
    assert_eq!(world.receive(&mut client, get("/small.txt").as_bytes()), Waits::ForBytes);
    assert_eq!(statuses(&client.got), [400], "nothing behind it is read");
    assert_eq!(world.end(&mut client), Waits::Closed);
}

#[test]
fn lingering_ends_with_the_clients_silence_after_half_a_minute_or_a_gigabyte() {
    let mut world = world();
    // It says nothing, and then nothing more.
    let mut client = world.connect();
    world.receive(&mut client, b"?\r\n\r\n");
    assert_eq!(world.pass_ms(&mut client, 1_999), Waits::ForBytes);
    assert_eq!(world.receive(&mut client, b"still talking"), Waits::ForBytes);
    assert_eq!(world.pass_ms(&mut client, 4_999), Waits::ForBytes);
    assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);

    let mut client = world.connect();
    world.receive(&mut client, b"?\r\n\r\n");
    for _ in 0..29 {
        assert_eq!(world.pass_ms(&mut client, 1_000), Waits::ForBytes);
        assert_eq!(world.receive(&mut client, b"still talking"), Waits::ForBytes);
    }
    assert_eq!(world.pass_ms(&mut client, 1_000), Waits::Closed);

    let mut client = world.connect();
    world.receive(&mut client, b"?\r\n\r\n");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1023 {
        assert_eq!(world.receive(&mut client, &piece), Waits::ForBytes);
    }
    assert_eq!(world.receive(&mut client, &piece), Waits::Closed);
}

#[test]
fn limits_of_the_head() {
    let long_target = format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_000));
    let long_head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n", "x".repeat(33_000));
    for (request, status) in [(long_target, 414), (long_head, 431)] {
        for pieces in [&[][..], &[1_000]] {
            let client = world().exchange(request.as_bytes(), pieces, &[]);
            assert_eq!(reply(&client.got).status, status);
            assert!(client.write_is_shut);
        }
    }
}

#[test]
fn a_client_that_leaves_is_forgotten() {
    for said in [&b""[..], b"GET / HT", with_half_a_body()] {
        let mut world = world();
        let mut client = world.connect();
        world.receive(&mut client, said);
        assert_eq!(world.end(&mut client), Waits::Closed);
        assert!(client.got.is_empty());
    }
}

fn with_half_a_body() -> &'static [u8] {
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
}

#[test]
fn a_client_that_shuts_its_side_still_gets_its_answer() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    world.receive(&mut client, get("/small.txt").as_bytes());
    // A driver may learn of the end while the connection wants something else.
    assert_eq!(world.end(&mut client), Waits::ForJob);
    world.complete(&mut client);
    assert_eq!(reply(&client.got).body, text(100));
    assert_eq!(world.end(&mut client), Waits::Closed);
}

#[test]
fn bytes_behind_the_last_request_make_it_linger() {
    let mut world = world();
    let mut client = world.connect();
    assert_eq!(
        world.receive(&mut client, (CLOSE.to_owned() + &get("/small.txt")).as_bytes()),
        Waits::ForBytes
    );
    assert_eq!(statuses(&client.got), [200]);
    assert!(client.write_is_shut);
}

#[test]
fn draining_closes_what_is_idle_and_ends_what_is_not() {
    let mut world = world();
    world.disk.script([Look::Resident, Look::Absent]);
    let [mut idle, mut silent, mut half, mut loading] = [(); 4].map(|()| world.connect());
    world.receive(&mut idle, get("/small.txt").as_bytes());
    world.receive(&mut half, b"GET /small.txt HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(world.receive(&mut loading, get("/large.bin").as_bytes()), Waits::ForJob);
    world.drain = Drain::AtOnce;
    assert_eq!(world.turn(&mut idle), Waits::Closed);
    assert_eq!(world.pass_ms(&mut silent, 100), Waits::Closed);
    assert_eq!(world.turn(&mut half), Waits::ForBytes);
    assert_eq!(world.receive(&mut half, b"\r\n"), Waits::Closed);
    assert_eq!(reply(&half.got).field("Connection"), Some("close"));
    assert_eq!(world.complete_all(&mut loading), Waits::Closed);
    assert_eq!(reply(&loading.got).body, text(LARGE_BYTES));
}

/// A close before the request has been read would reset its connection.
#[test]
fn a_request_that_is_on_its_way_when_draining_begins_is_answered() {
    let mut world = world();
    let mut old = world.connect();
    world.pass_ms(&mut old, 100);
    for earlier in [Drain::No, Drain::AtOnce] {
        world.drain = earlier;
        let mut new = world.connect();
        assert_eq!(world.turn(&mut new), Waits::ForBytes);
        world.drain = Drain::AtOnce;
        assert_eq!(world.turn(&mut new), Waits::ForBytes);
        assert_eq!(world.receive(&mut new, b"GET /small.txt HTTP/1.1\r\n"), Waits::ForBytes);
        assert_eq!(world.pass_ms(&mut new, 100), Waits::ForBytes, "the rest has the time of any head");
        assert_eq!(world.receive(&mut new, b"Host: a\r\n\r\n"), Waits::Closed);
        let reply = reply(&new.got);
        assert_eq!((reply.status, reply.field("Connection")), (200, Some("close")));
    }
    assert_eq!(world.turn(&mut old), Waits::Closed, "its client has nothing to ask");
}

#[test]
fn beside_a_successor_each_connection_gets_one_more_response() {
    let mut world = world();
    let [mut idle, mut silent] = [(); 2].map(|()| world.connect());
    world.receive(&mut idle, get("/small.txt").as_bytes());
    world.drain = Drain::AfterNextRequest;
    for client in [&mut idle, &mut silent] {
        assert_eq!(world.turn(client), Waits::ForBytes);
        client.got.clear();
        assert_eq!(world.receive(client, get("/small.txt").as_bytes()), Waits::Closed);
        assert_eq!(reply(&client.got).field("Connection"), Some("close"));
    }
}

#[test]
fn a_client_may_vanish_at_any_byte() {
    let input = get("/small.txt") + &get("/one-window.bin") + &get("/folder/") + &get("/missing");
    let whole = world().ask(&input);
    let mut world = world();
    for room in 0..whole.len() {
        world.tally.records.clear();
        let mut client = world.connect();
        client.socket = Socket::with_room(room);
        world.receive(&mut client, input.as_bytes());
        world.complete_all(&mut client);
        assert!(client.got == whole[..room]);
        world.with(&mut client, |connection, cx| connection.abort(cx));
        assert_eq!(world.turn(&mut client), Waits::Closed);
        assert!(!client.connection.h1().holds_output() && client.connection.h1().input().capacity() == 0);
        let promised: u64 = world.tally.records.iter().map(|record| record.body_bytes).sum();
        assert!(promised <= room as u64, "{room} bytes left, {promised} were recorded");
    }
}
