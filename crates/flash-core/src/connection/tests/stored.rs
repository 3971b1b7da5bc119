//! Responses of programs that are stored, because their clients are behind. The program is free at once, and the client gets
//! every byte at its own speed.

use super::programs::{GET, fate, manner, running, world_of_programs};
use super::*;
use crate::cache::memory_budget::Budget;
use crate::job::{Failure, Job, Spool};
use crate::record::counters::Count;
use crate::testing::{BrokenOff, Program, STDOUT, end_record, record};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

const PIECE: usize = 10_000;
const PIECES: usize = 200;

fn world_with(answers_bytes: u64, spool_bytes: u64) -> World {
    let mut world = world_of_programs();
    world.routes().answers = Budget::new(answers_bytes);
    world.routes().spool = Budget::new(spool_bytes);
    world
}

fn say(program: &mut Program, bytes: &[u8]) {
    match program.manner.protocol {
        UpstreamProtocol::FastCgi => program.say(record(STDOUT, bytes)),
        UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.say(bytes),
    }
}

/// A whole response, as long as two megabytes.
fn say_much(program: &mut Program) {
    say(program, b"Content-Type: text/plain\n\n");
    for piece in text(PIECE * PIECES).chunks(PIECE) {
        say(program, piece);
    }
    match program.manner.protocol {
        UpstreamProtocol::FastCgi => program.say(end_record()),
        UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.ended = true,
    }
}

/// A client that takes nothing, and whose program writes as much as it may.
fn behind(world: &mut World, protocol: UpstreamProtocol) -> Client {
    let path =
        if protocol == UpstreamProtocol::FastCgi { "GET /app HTTP/1.1\r\nHost: a\r\n\r\n" } else { GET };
    let mut client = running(world, path, protocol);
    client.socket = Socket::FULL;
    world.hear(&mut client, say_much);
    client
}

fn complete_jobs(world: &mut World, client: &mut Client) {
    while client.pending.is_some() {
        world.complete(client);
    }
}

/// The client takes what there is for it, so much at a time.
fn drain(world: &mut World, client: &mut Client, bytes: usize) {
    let mut before = usize::MAX;
    while client.got.len() != before || client.pending.is_some() {
        before = client.got.len();
        complete_jobs(world, client);
        client.connection.client_ready();
        world.make_room(client, bytes);
    }
}

#[test]
fn a_program_is_free_before_its_client_has_read_anything() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        for answers_bytes in [0, 1 << 20, 64 << 20] {
            let mut world = world_with(answers_bytes, 16 << 24);
            let routes = world.site().routes.clone().unwrap();
            let mut client = behind(&mut world, protocol);
            complete_jobs(&mut world, &mut client);
            let case = format!("{protocol:?}, {answers_bytes}");
            let how = if protocol == UpstreamProtocol::FastCgi {
                ReleaseMode::Reusable
            } else {
                ReleaseMode::Ended
            };
            assert_eq!(fate(&client), Some(Ok(how)), "{case}");
            assert!(client.got.is_empty() && world.tally.counts.get(Count::SpooledBytes) > 900_000, "{case}");
            assert!(routes.spool.left_bytes() < routes.spool.bytes_max());
            drain(&mut world, &mut client, 7_777);
            assert!(reply(&client.got).body == text(PIECE * PIECES), "{case}");
            assert!(client.connection.is_idle(), "{case}");
            assert_eq!(routes.spool.left_bytes(), routes.spool.bytes_max(), "{case}");
            assert_eq!(routes.answers.left_bytes(), routes.answers.bytes_max(), "{case}");
            assert_eq!(world.disk.open_files(), 0, "{case}");
            let [record] = &world.tally.records[..] else { panic!("one record") };
            assert!(!record.cut && record.body_bytes > (PIECE * PIECES) as u64, "{case}");
        }
    }
}

#[test]
fn a_response_has_a_part_of_the_disk_and_then_its_program_waits() {
    let mut world = world_with(0, 16 * 500_000);
    let mut client = behind(&mut world, UpstreamProtocol::Cgi);
    complete_jobs(&mut world, &mut client);
    let left = client.program.as_ref().unwrap().says.len();
    assert!((145..155).contains(&left), "{left}");
    assert_eq!(world.left_ms(&client), 5_000);
    // Others have the rest.
    let mut other = behind(&mut world, UpstreamProtocol::Cgi);
    complete_jobs(&mut world, &mut other);
    assert!(other.program.as_ref().unwrap().says.len() < 155);
    drop(other);
    drain(&mut world, &mut client, 9_999);
    assert!(reply(&client.got).body == text(PIECE * PIECES));
    assert_eq!(world.disk.open_files(), 0);
}

#[test]
fn a_disk_that_takes_nothing_has_the_program_wait_for_its_client() {
    for failure in [Some(Failure::Full), Some(Failure::Broken), Some(Failure::Overloaded), None] {
        for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
            let mut world = world_with(0, 16 << 24);
            let mut client = behind(&mut world, protocol);
            for _ in 0..3 {
                world.complete(&mut client);
            }
            match failure {
                Some(failure) => _ = world.fail(&mut client, failure),
                // It takes too long.
                None => {
                    world.pass_ms(&mut client, 10_000);
                    client.late.extend(client.pending.take());
                }
            }
            assert_eq!(fate(&client), None, "{failure:?}");
            assert_eq!(world.left_ms(&client), 5_000, "{failure:?}: as long as any other");
            drain(&mut world, &mut client, 9_999);
            assert!(reply(&client.got).body == text(PIECE * PIECES), "{failure:?}, {protocol:?}");
            assert!(fate(&client).is_some());
            let said = world.tally.upstream_errors.len();
            assert_eq!(said, usize::from(matches!(failure, Some(Failure::Full | Failure::Broken))));
            // It is done after all.
            while !client.late.is_empty() {
                world.complete_late(&mut client);
            }
            assert_eq!(statuses(&client.got), [200]);
        }
    }
}

#[test]
fn what_cannot_be_brought_back_ends_the_connection() {
    let mut world = world_with(0, 16 << 24);
    let mut client = behind(&mut world, UpstreamProtocol::Cgi);
    complete_jobs(&mut world, &mut client);
    client.connection.client_ready();
    world.make_room(&mut client, 10_000);
    let Some((_, Job::Spool(Spool::Read { .. }))) = &client.pending else { panic!("{:?}", client.pending) };
    assert_eq!(world.fail(&mut client, Failure::Broken), Waits::Closed);
    assert!(!client.got.ends_with(b"0\r\n\r\n"), "nobody takes it for complete");
    assert_eq!((world.disk.open_files(), world.tally.upstream_errors.len()), (0, 1));
}

#[test]
fn a_client_goes_on_reading_while_a_part_is_written() {
    let mut world = world_with(0, 16 << 24);
    let mut client = behind(&mut world, UpstreamProtocol::Cgi);
    assert!(client.pending.is_some() && client.got.is_empty());
    client.connection.client_ready();
    world.make_room(&mut client, 1_000);
    assert_eq!(client.got.len(), 1_000);
}

/// As events of a server do: each has left before the next is made.
#[test]
fn what_a_program_writes_leaves_at_once() {
    let mut world = world_with(0, 16 << 24);
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| program.say(b"Content-Type: text/event-stream\n\n"));
    for number in 0..1_000 {
        let event = format!("data: {number}\n\n");
        world.hear(&mut client, |program| program.say(&event));
        let ends = format!("{event}\r\n");
        assert!(client.got.ends_with(ends.as_bytes()) && client.pending.is_none());
    }
    assert_eq!(world.tally.counts.get(Count::SpooledBytes), 0);
}

/// It has written a part of its response. What is stored of it is of no use.
#[test]
fn a_program_that_dies_half_way_ends_the_connection() {
    let mut world = world_with(0, 16 << 24);
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    client.socket = Socket::FULL;
    world.hear(&mut client, |program| {
        program.say(b"Content-Length: 1000000\n\n");
        program.say([b'x'; 100_000]);
        program.ended = true;
    });
    while client.pending.is_some() {
        world.complete(&mut client);
    }
    assert_eq!(world.turn(&mut client), Waits::Closed);
    assert_eq!(world.disk.open_files(), 0);
}

#[test]
fn a_client_that_leaves_takes_what_was_stored_along() {
    let mut world = world_with(0, 16 << 24);
    let mut client = behind(&mut world, UpstreamProtocol::Cgi);
    for _ in 0..5 {
        world.complete(&mut client);
    }
    assert_eq!(fate(&client), None);
    world.with(&mut client, |connection, cx| connection.abort(cx));
    assert_eq!(fate(&client), Some(Err(BrokenOff)));
    client.pending = None;
    assert_eq!(world.disk.open_files(), 0);
}

#[test]
fn the_next_request_is_answered_behind_a_stored_response() {
    let mut world = world_with(0, 16 << 24);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    let mut client = world.connect();
    client.socket = Socket::FULL;
    world.receive(&mut client, (GET.to_owned() + &get("/small.txt")).as_bytes());
    world.hear(&mut client, say_much);
    drain(&mut world, &mut client, 50_000);
    let all = replies(&client.got, &[]);
    assert!(all[0].body == text(PIECE * PIECES) && all[1].body == text(100));
}
