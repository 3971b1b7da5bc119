//! Clients that would hold a program by doing nothing. No program starts before its request is whole. None waits for long,
//! whatever its client has done before.

use super::programs::{ANSWER, GET, fate, post, running, world_of_programs};
use super::*;
use crate::testing::{BrokenOff, Program, STDOUT, record};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

/// How long a program may wait for its client.
const SEND_MS: u64 = 5_000;
const LEAST: u64 = 500;

/// A client whose program writes without end. It has taken this much, and takes nothing more.
fn held(world: &mut World, protocol: UpstreamProtocol, taken: usize) -> Client {
    let path =
        if protocol == UpstreamProtocol::FastCgi { "GET /app HTTP/1.1\r\nHost: a\r\n\r\n" } else { GET };
    let mut client = running(world, path, protocol);
    client.socket = Socket::with_room(taken);
    world.hear(&mut client, |program| {
        let mut say = |bytes: &[u8]| match protocol {
            UpstreamProtocol::FastCgi => program.say(record(STDOUT, bytes)),
            UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.say(bytes),
        };
        say(ANSWER);
        (0..200).for_each(|_| say(&[b'x'; 16 << 10]));
    });
    assert!(client.program.as_ref().is_some_and(|program| program.says.len() > 100), "it is not read");
    client
}

#[test]
fn a_program_does_not_wait_for_long_for_a_client_that_takes_nothing() {
    for (protocol, released) in
        [(UpstreamProtocol::Cgi, Err(BrokenOff)), (UpstreamProtocol::FastCgi, Ok(ReleaseMode::Aborted))]
    {
        // What it took before is worth minutes to a client that holds no program.
        for taken in [0, 460_000] {
            let mut world = world_of_programs();
            let mut client = held(&mut world, protocol, taken);
            world.pass_ms(&mut client, SEND_MS - 1);
            assert_eq!(fate(&client), None);
            assert_eq!(world.pass_ms(&mut client, 1), Waits::Closed);
            assert!(client.is_reset);
            assert_eq!(fate(&client), Some(released), "{protocol:?}, {taken}");
        }
    }
}

#[test]
fn a_client_that_goes_on_reading_keeps_its_program() {
    let mut world = world_of_programs();
    let mut client = held(&mut world, UpstreamProtocol::Cgi, 100_000);
    for second in 0..300 {
        client.connection.client_ready();
        world.make_room(&mut client, 2 * LEAST as usize);
        assert_ne!(world.pass_ms(&mut client, 1_000), Waits::Closed, "after {second} s");
    }
    assert_eq!(fate(&client), None);
}

/// One byte of a program's at a time has it wait no longer.
#[test]
fn a_client_that_reads_too_slowly_uses_its_time_up() {
    let mut world = world_of_programs();
    let mut client = held(&mut world, UpstreamProtocol::Cgi, 100_000);
    client.program.as_mut().unwrap().says.clear();
    for second in 0.. {
        assert!(second < 10, "it still has its program");
        client.connection.client_ready();
        world.make_room(&mut client, LEAST as usize / 4);
        world.hear(&mut client, |program| program.say([b'x'; LEAST as usize / 4]));
        if world.pass_ms(&mut client, 1_000) == Waits::Closed {
            break;
        }
    }
    assert_eq!(fate(&client), Some(Err(BrokenOff)));
}

/// The time of a program that says nothing is its own, whether or not its client has taken what it said before.
#[test]
fn a_program_is_not_silent_for_longer_because_its_client_takes_nothing() {
    let mut world = world_of_programs();
    world.manner = Some(super::programs::manner(UpstreamProtocol::Cgi));
    world.routes().answers = crate::cache::memory_budget::Budget::new(64 << 20);
    let mut client = world.connect();
    // So much is worth twenty minutes.
    world.receive(&mut client, (post(600_000) + &"x".repeat(600_000)).as_bytes());
    client.socket = Socket::FULL;
    world.hear(&mut client, |program: &mut Program| program.say(ANSWER));
    for second in 1..60 {
        assert_ne!(world.pass_ms(&mut client, 1_000), Waits::Closed, "after {second} s");
    }
    assert_eq!(world.pass_ms(&mut client, 1_000), Waits::Closed);
    assert_eq!(fate(&client), Some(Err(BrokenOff)));
}

/// It holds nothing but its own connection.
#[test]
fn a_client_without_a_program_has_the_time_that_it_has_earned() {
    let mut world = world_of_programs();
    world.routes().answers = crate::cache::memory_budget::Budget::new(64 << 20);
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    client.socket = Socket::with_room(30_000);
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.say([b'x'; 60_000]);
        program.ended = true;
    });
    assert!(fate(&client).is_some(), "it is done");
    assert_ne!(world.pass_ms(&mut client, 50_000), Waits::Closed);
    client.connection.client_ready();
    world.make_room(&mut client, 100_000);
    assert!(client.connection.is_idle());
}
