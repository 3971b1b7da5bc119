//! Clients that close their side of the connection while a program answers, and clients that have vanished.

use super::programs::{ANSWER, GET, fate, manner, post, running, world_of_programs};
use super::*;
use crate::cache::memory_budget::Budget;
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
                UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.say(bytes),
            };
            world.hear(&mut client, |program| say(program, first));
            if closes == "in the middle" {
                world.end(&mut client);
            }
            let waits = world.hear(&mut client, |program| {
                say(program, rest);
                match protocol {
                    UpstreamProtocol::FastCgi => program.say(end_record()),
                    UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => {
                        program.ended = true
                    }
                }
            });
            assert_eq!(&*reply(&client.got).body, b"hello", "{protocol:?}, {closes}");
            assert_eq!(waits, Waits::Closed, "{protocol:?}, {closes}: there will be no other request");
        }
    }
}

/// It may be gone. If it is, the next byte that is sent to it shows that.
#[test]
fn a_client_that_has_closed_its_side_waits_for_a_word_of_its_program_and_no_longer() {
    for is_begun in [false, true] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        world.receive(&mut client, GET.as_bytes());
        if is_begun {
            world.begin(&mut client, manner(UpstreamProtocol::Cgi));
        }
        world.pass_ms(&mut client, 30_000);
        let waits = world.end(&mut client);
        assert!(matches!(waits, Waits::ForProgram(Interest { client_in: false, .. })), "{waits:?}");
        assert_eq!(world.left_ms(&client), 10_000, "from this moment on");
        world.pass_ms(&mut client, 9_999);
        assert!(client.got.is_empty());
        if is_begun {
            world.hear(&mut client, |program| program.say(&ANSWER[..10]));
            assert_eq!(world.left_ms(&client), 10_000, "it lives");
        }
        assert_eq!(world.pass_ms(&mut client, 10_000), Waits::Closed);
        assert_eq!(reply(&client.got).status, 504);
        assert!(world.tally.upstream_errors.is_empty(), "its program has done nothing wrong");
        if is_begun {
            assert_eq!(fate(&client), Some(Err(BrokenOff)));
        }
    }
}

#[test]
fn a_program_with_less_time_than_that_gets_no_more() {
    let mut world = world_of_programs();
    world.server.settings.program_silence_ms = 1_000;
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.end(&mut client);
    assert_eq!(world.left_ms(&client), 1_000);
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
fn a_body_that_breaks_off_begins_no_program() {
    for sent in [2, 100_000] {
        let mut world = world_of_programs();
        world.routes().answers = Budget::new(64 << 20);
        let mut client = world.connect();
        client.leaves = true;
        let request = post(sent + 1) + &"x".repeat(sent);
        assert_eq!(world.receive(&mut client, request.as_bytes()), Waits::Closed);
        assert!(client.begin.is_none());
    }
}
