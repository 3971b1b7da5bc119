//! What a connection holds: almost nothing while it is idle, and never more than a limit.

use std::io::IoSlice;

use super::*;
use crate::connection::output::Front;

#[test]
fn a_connection_is_small() {
    assert!(size_of::<Connection>() <= 256, "{} bytes", size_of::<Connection>());
}

#[test]
fn an_idle_connection_has_no_buffers() {
    let half = get("/small.txt");
    let with_body = "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let expecting =
        "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
    for input in [
        get("/small.txt"),
        get("/large.bin") + &get("/folder/") + &get("/middle.txt"),
        get("/missing").repeat(200),
        with_body.to_owned(),
        expecting.to_owned(),
        half,
    ] {
        for pieces in [&[][..], &[1], &[40]] {
            let mut world = world();
            let client = world.exchange(input.as_bytes(), pieces, &[]);
            assert!(client.connection.is_idle(), "{input}");
            assert_eq!(client.connection.h1().input().capacity(), 0, "{input}");
            assert!(!client.connection.h1().holds_output(), "{input}");
        }
    }
}

#[test]
fn a_new_connection_has_no_buffers() {
    let mut world = world();
    let client = world.connect();
    assert!(client.connection.is_idle());
    assert_eq!(client.connection.h1().input().capacity(), 0);
    assert!(!client.connection.h1().holds_output());
}

/// A client that sends requests without end and reads nothing gets a limited number of responses.
#[test]
fn the_output_is_bounded() {
    for path in ["/small.txt", "/missing", "/middle.txt"] {
        let mut world = world();
        let mut client = world.connect();
        client.socket = Socket::FULL;
        assert_eq!(world.receive(&mut client, get(path).repeat(10_000).as_bytes()), Waits::ForRoom);
        let output = client.connection.output().expect("there is something to send");
        let mut slices = [IoSlice::new(&[]); 10_000];
        let Front::Slices { count, .. } = output.front(&mut slices) else { panic!("slices of memory") };
        let (own, _): (Vec<usize>, Vec<usize>) =
            slices[..count].iter().map(|slice| slice.len()).partition(|n| *n < 6_000);
        let bytes: usize = own.iter().sum();
        assert!(bytes < 72 << 10 && count < 200, "{path}: {bytes} bytes in {count} slices");
    }
}

#[test]
fn an_aborted_connection_gives_its_buffers_back() {
    let mut world = world();
    let mut client = world.connect();
    client.socket = Socket::with_room(50);
    world.receive(&mut client, (get("/large.bin") + "GET /").as_bytes());
    world.with(&mut client, |connection, cx| connection.abort(cx));
    assert_eq!(client.connection.h1().input().capacity(), 0);
    assert!(!client.connection.h1().holds_output());
}
