//! Clients that close their side of the connection while a program answers, and clients that have vanished.

use super::programs::{ANSWER, GET, fate, manner, post, running, world_of_programs};
use super::*;
use crate::testing::{BrokenOff, Program, STDOUT, end_record, record};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        for closes in
            ["with its request", "while it waits for its turn", "while its program runs", "in the middle"]
        {
            let mut world = world_of_programs();
            let mut client = world.connect();
            client.leaves = closes == "with its request";
            let waits = world.receive(&mut client, (post(3) + "abc").as_bytes());
            assert!(matches!(waits, Waits::ForProgram(_)), "{protocol:?}, {closes}: {waits:?}");
            if closes == "while it waits for its turn" {
                world.end(&mut client);
            }
            world.begin(&mut client, manner(protocol));
            if closes == "while its program runs" {
                world.end(&mut client);
            }
            let (first, rest) = ANSWER.split_at(ANSWER.len() - 2);
            let say = |program: &mut Program, bytes: &[u8]| match protocol {
                UpstreamProtocol::FastCgi => program.say(record(STDOUT, bytes)),
                UpstreamProtocol::Cgi | UpstreamProtocol::Nph => program.say(bytes),
            };
            world.hear(&mut client, |program| say(program, first));
            if closes == "in the middle" {
                world.end(&mut client);
            }
            let waits = world.hear(&mut client, |program| {
                say(program, rest);
                match protocol {
                    UpstreamProtocol::FastCgi => program.say(end_record()),
                    UpstreamProtocol::Cgi | UpstreamProtocol::Nph => program.ended = true,
                }
            });
            assert_eq!(&*reply(&client.got).body, b"hello", "{protocol:?}, {closes}");
            assert_eq!(waits, Waits::Closed, "{protocol:?}, {closes}: there will be no other request");
        }
    }
}

#[test]
fn a_client_that_has_closed_its_side_waits_as_long_as_any_other() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    let waits = world.end(&mut client);
    assert!(matches!(waits, Waits::ForProgram(Interest { client_in: false, .. })), "{waits:?}");
    assert_eq!(world.pass_ms(&mut client, 60_000), Waits::Closed);
    assert_eq!(reply(&client.got).status, 504);
}

#[test]
fn a_client_that_is_gone_ends_its_program() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        for closes in [false, true] {
            let mut world = world_of_programs();
            let mut client = running(&mut world, GET, protocol);
            if closes {
                world.end(&mut client);
            }
            world.with(&mut client, |connection, cx| connection.abort(cx));
            let aborted = match protocol {
                UpstreamProtocol::FastCgi => Ok(ReleaseMode::Aborted),
                _ => Err(BrokenOff),
            };
            assert_eq!(fate(&client), Some(aborted));
        }
    }
}

#[test]
fn a_body_that_breaks_off_ends_its_program() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, &(post(3) + "ab"), UpstreamProtocol::Cgi);
    assert_eq!(world.end(&mut client), Waits::Closed);
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Aborted)));
    // Before it has begun there is none to end.
    let mut client = world.connect();
    client.leaves = true;
    assert_eq!(world.receive(&mut client, (post(3) + "ab").as_bytes()), Waits::Closed);
    assert!(client.begin.is_none());
    // One that has done without the rest has answered.
    let mut client = running(&mut world, &(post(3) + "ab"), UpstreamProtocol::Cgi);
    client.socket = Socket::FULL;
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    world.end(&mut client);
    client.connection.client_ready();
    world.make_room(&mut client, 10_000);
    assert_eq!(&*reply(&client.got).body, b"hello");
}
