//! Exchanges that end too late, halfway, or with more bytes than were asked for.

use super::programs::{ANSWER, GET, fate, manner, post, running, world_of_programs};
use super::*;
use crate::testing::{Manner, STDOUT, end_record, record};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

#[test]
fn a_program_that_begins_too_late_gets_nobody_elses_request() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, GET.as_bytes());
    world.pass_ms(&mut client, 60_000);
    assert_eq!(reply(&client.got).field("Connection"), Some("close"));
    world.receive(&mut client, GET.as_bytes());
    assert!(client.connection.h1().is_closing(), "{:?}", client.connection);
}

#[test]
fn head_bears_a_program_that_sends_a_body_all_the_same() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        let mut world = world_of_programs();
        let mut client = running(&mut world, &(GET.replace("GET", "HEAD") + &get("/small.txt")), protocol);
        world.hear(&mut client, |program| {
            let piece = [b'x'; 16 << 10];
            let framed = |bytes: &[u8]| match protocol {
                UpstreamProtocol::FastCgi => record(STDOUT, bytes),
                _ => bytes.to_vec(),
            };
            program.say(framed(ANSWER));
            (0..20).for_each(|_| program.say(framed(&piece)));
        });
        assert_eq!(replies(&client.got, &[0]).len(), 2, "{protocol:?}");
        assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
        assert!(world.tally.upstream_errors.is_empty());
    }
}

#[test]
fn a_program_that_floods_behind_its_answer_is_left_to_itself() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::FastCgi);
    let head = b"Content-Type: a/b\nContent-Length: 3\n\nabc";
    world.hear(&mut client, |program| {
        program.say(record(STDOUT, head));
        (0..20).for_each(|_| program.say(record(STDOUT, &[b'x'; 16 << 10])));
    });
    assert_eq!(&*reply(&client.got).body, b"abc");
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
    assert!(client.connection.is_idle());
}

/// A CGI program knows a body by the end of its stream. If the body is cut short, the program is ended before it sees that
/// end.
#[test]
fn half_an_upload_is_not_taken_for_a_whole_one() {
    let mut world = world_of_programs();
    world.manner = Some(Manner { room: 1, ..manner(UpstreamProtocol::Cgi) });
    let mut client = world.connect();
    world.receive(&mut client, (post(3) + "abc").as_bytes());
    world.with(&mut client, |connection, cx| connection.abort(cx));
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Aborted)));
}

/// A FastCGI program is told the length of a chunked body, and leaves nothing in the stream.
#[test]
fn a_stream_that_has_carried_chunks_is_kept() {
    let chunked =
        "POST /app/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let mut world = world_of_programs();
    let mut client = running(&mut world, chunked, UpstreamProtocol::FastCgi);
    world.hear(&mut client, |program| program.say([record(STDOUT, ANSWER), end_record()].concat()));
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Reusable)));
}

/// A program of FastCGI has written its whole response, and then closes its connection, writes nonsense, or is silent.
#[test]
fn a_response_that_is_complete_is_sent_whatever_its_program_does_then() {
    for ends in ["closes", "writes nonsense", "is silent"] {
        let mut world = world_of_programs();
        let mut client = running(&mut world, GET, UpstreamProtocol::FastCgi);
        client.socket = Socket::with_room(1_000);
        let answer = [&b"Content-Type: a/b\nContent-Length: 40000\n\n"[..], text(40_000)].concat();
        world.hear(&mut client, |program| {
            program.say(record(STDOUT, &answer));
            match ends {
                "closes" => program.ended = true,
                "writes nonsense" => program.say(b"nonsense"),
                _ => {}
            }
        });
        client.connection.client_ready();
        world.make_room(&mut client, 100_000);
        if ends == "is silent" {
            world.pass_ms(&mut client, 60_001);
        }
        assert!(reply(&client.got).body == text(40_000), "{ends}");
        assert!(fate(&client).is_some(), "{ends}: it is released");
        assert_eq!(world.tally.upstream_errors.len(), 1, "{ends}");
        let [record] = &world.tally.records[..] else { panic!("one record") };
        assert!(!record.cut && record.body_bytes == 40_000, "{ends}");
        assert!(client.connection.is_idle(), "{ends}: the connection goes on");
        world.receive(&mut client, get("/small.txt").as_bytes());
        assert_eq!(statuses(&client.got), [200, 200], "{ends}");
    }
}
