//! Request bodies: a program starts when they are whole, and is told their length, wherever they were stored.

use super::programs::{ANSWER, fate, manner, world_of_programs};
use super::*;
use crate::cache::memory_budget::Budget;
use crate::job::{Failure, Spool};
use crate::testing::{Manner, Program, body_of};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

const HEAD: &str = "POST /cgi/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
/// How much is kept in memory in any case.
const MEMORY_BYTES: usize = 4 << 10;

fn chunked(body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(chunk_bytes) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nX-Trailer: dropped\r\n\r\n");
    bytes
}

fn request(protocol: UpstreamProtocol, body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let head =
        if protocol == UpstreamProtocol::FastCgi { HEAD.replace("/cgi/", "/app/") } else { HEAD.to_owned() };
    [head.as_bytes(), &chunked(body, chunk_bytes)].concat()
}

fn told(program: &Program) -> Vec<u8> {
    match program.manner.protocol {
        UpstreamProtocol::FastCgi => body_of(&program.told).expect("the end was told"),
        UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => {
            assert!(program.told_end);
            program.told.clone()
        }
    }
}

fn content_length(program: &Program) -> Option<String> {
    program.begin.variables.get(b"CONTENT_LENGTH").map(|value| String::from_utf8_lossy(value).into_owned())
}

#[test]
fn a_program_is_told_the_length_and_gets_every_byte() {
    let sizes =
        [0, 1, 10, MEMORY_BYTES - 1, MEMORY_BYTES, MEMORY_BYTES + 1, 2 * MEMORY_BYTES, 100_000, 900_000];
    for (at, size) in sizes.into_iter().enumerate() {
        for (protocol, room, piece, chunk_bytes) in [
            (UpstreamProtocol::Cgi, 1 << 20, 1 << 16, 1 << 16),
            (UpstreamProtocol::FastCgi, 1 << 20, 10_000, 4_000),
            (UpstreamProtocol::Cgi, 7_000, 60_000, 100_000),
            (UpstreamProtocol::FastCgi, 30_000, 65_536, 333),
        ] {
            for answers_bytes_max in [0, 64 << 20] {
                let mut world = world_of_programs();
                let answers = Budget::new(answers_bytes_max);
                world.routes().answers = Arc::clone(&answers);
                let answer = Some((ANSWER.to_vec(), 1 << 20));
                world.manner = Some(Manner { protocol, used: false, room, answer });
                let body = text(size);
                let case = format!("{size} bytes, {protocol:?}, {room}, {piece}, {answers_bytes_max}");
                let client = world.exchange(&request(protocol, body, chunk_bytes), &[piece], &[1 << 20]);
                let program = client.program.as_ref().expect(&case);
                assert!(told(program) == body, "{case}");
                assert_eq!(content_length(program), Some(size.to_string()), "{case}");
                assert_eq!(program.begin.variables.get(b"HTTP_TRANSFER_ENCODING"), None);
                assert_eq!(&*reply(&client.got).body, b"hello", "{case}");
                assert!(client.connection.is_idle(), "{case}");
                let jobs = world.disk.done.get("spool").copied().unwrap_or(0);
                match (answers_bytes_max, size >= MEMORY_BYTES) {
                    (0, true) => assert!(jobs >= 2, "{case}: {jobs} jobs"),
                    _ => assert_eq!(jobs, 0, "{case}, {at}"),
                }
                drop(client);
                assert_eq!(world.disk.open_files(), 0, "{case}");
                assert_eq!(answers.left_bytes(), answers.bytes_max(), "{case}");
            }
        }
    }
}

#[test]
fn nothing_begins_before_the_body_is_whole() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    let all = request(UpstreamProtocol::Cgi, text(10), 3);
    let (last, most) = all.split_last().unwrap();
    let waits = world.receive(&mut client, most);
    let Waits::ForProgram(awaited) = waits else { panic!("{waits:?}") };
    assert!(awaited.client_in && !awaited.upstream_in && client.begin.is_none());
    world.receive(&mut client, &[*last]);
    assert_eq!(client.begin.as_ref().unwrap().1.variables.get(b"CONTENT_LENGTH"), Some(&b"10"[..]));
}

#[test]
fn leave_to_send_is_given_before_the_program_begins() {
    let head = HEAD.replace("Host: a", "Host: a\r\nExpect: 100-continue");
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, head.as_bytes());
    assert_eq!(client.got, b"HTTP/1.1 100 Continue\r\n\r\n");
    world.receive(&mut client, &chunked(b"abc", 2));
    world.begin(&mut client, manner(UpstreamProtocol::Cgi));
    assert_eq!(told(client.program.as_ref().unwrap()), b"abc");
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!(statuses(&client.got), [100, 200]);
}

#[test]
fn a_body_that_is_too_large_or_broken_is_refused_and_nothing_begins() {
    for (body, status) in [
        (chunked(text((1 << 20) + 1), 1 << 16), 413),
        (b"2\r\nabc".to_vec(), 400),
        (b"no length\r\n".to_vec(), 400),
    ] {
        let mut world = world_of_programs();
        let client = world.exchange(&[HEAD.as_bytes(), &body].concat(), &[50_000], &[1 << 20]);
        let reply = reply(&client.got);
        assert_eq!((reply.status, reply.field("Connection")), (status, Some("close")));
        assert!(client.begin.is_none() && client.program.is_none());
        assert_eq!(world.disk.open_files(), 0, "{status}");
    }
}

/// A client, the first part of whose body is about to be written.
fn spooling(world: &mut World) -> Client {
    let mut client = world.connect();
    let request = request(UpstreamProtocol::Cgi, text(40_000), 20_000);
    let waits = world.receive(&mut client, &request[..HEAD.len() + 30_000]);
    assert_eq!(waits, Waits::ForJob);
    client
}

#[test]
fn a_client_is_not_read_while_its_body_is_written() {
    let mut world = world_of_programs();
    let mut client = spooling(&mut world);
    let Some((_, Job::Spool(Spool::Write { file: None, bytes }))) = &client.pending else { panic!() };
    assert_eq!(bytes.len(), MEMORY_BYTES);
    client.connection.client_ready();
    assert_eq!(world.turn(&mut client), Waits::ForJob);
    let mut waits = Waits::ForJob;
    while waits == Waits::ForJob {
        waits = world.complete(&mut client);
    }
    assert!(matches!(waits, Waits::ForProgram(Interest { client_in: true, .. })));
}

#[test]
fn what_cannot_be_kept_is_answered() {
    for (failure, status, said) in [
        (Failure::Full, 507, 1),
        (Failure::Broken, 500, 1),
        (Failure::Overloaded, 503, 0),
        (Failure::DeviceDown, 503, 0),
    ] {
        let mut world = world_of_programs();
        let mut client = spooling(&mut world);
        world.fail(&mut client, failure);
        let reply = reply(&client.got);
        assert_eq!((reply.status, reply.field("Connection")), (status, Some("close")));
        assert!(client.write_is_shut && client.begin.is_none());
        assert_eq!(world.tally.upstream_errors.len(), said, "{failure:?}");
    }
}

#[test]
fn what_cannot_be_brought_back_ends_the_program() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, &request(UpstreamProtocol::Cgi, text(100_000), 20_000));
    while client.begin.is_none() {
        world.complete(&mut client);
    }
    assert_eq!(world.begin(&mut client, manner(UpstreamProtocol::Cgi)), Waits::ForJob);
    world.fail(&mut client, Failure::Broken);
    assert_eq!((reply(&client.got).status, fate(&client)), (500, Some(Ok(ReleaseMode::Aborted))));
    assert!(client.connection.is_idle(), "its request was read to the end");
    assert_eq!(world.disk.open_files(), 0);
}

#[test]
fn a_disk_that_takes_too_long_is_answered_for() {
    let mut world = world_of_programs();
    let mut client = spooling(&mut world);
    assert_eq!(world.left_ms(&client), 10_000);
    world.pass_ms(&mut client, 10_000);
    let reply = reply(&client.got);
    assert_eq!((reply.status, reply.field("Connection")), (503, Some("close")));
    // It is done after all, and nobody is left to have a use for it.
    world.complete(&mut client);
    drop(client);
    assert_eq!(world.disk.open_files(), 0);
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    for at_job in [true, false] {
        let mut world = world_of_programs();
        let mut client = spooling(&mut world);
        if !at_job {
            while world.complete(&mut client) == Waits::ForJob {}
            assert_eq!(world.disk.open_files(), 1);
            assert_eq!(world.end(&mut client), Waits::Closed);
            assert_eq!(world.disk.open_files(), 0);
            continue;
        }
        world.with(&mut client, |connection, cx| connection.abort(cx));
        assert_eq!(world.complete(&mut client), Waits::Closed);
        assert_eq!(world.disk.open_files(), 0);
    }
}

#[test]
fn a_client_may_close_its_side_behind_its_last_chunk() {
    let mut world = world_of_programs();
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    let mut client = world.connect();
    client.leaves = true;
    let all = request(UpstreamProtocol::Cgi, text(40_000), 20_000);
    let mut waits = world.receive(&mut client, &all);
    while waits == Waits::ForJob {
        waits = world.complete(&mut client);
    }
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!(&*reply(&client.got).body, b"hello");
    assert!(told(client.program.as_ref().unwrap()) == text(40_000));
}

#[test]
fn a_program_that_closes_its_ears_is_read_nothing_more() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, &request(UpstreamProtocol::Cgi, text(500_000), 60_000));
    while client.begin.is_none() {
        world.complete(&mut client);
    }
    world.begin(&mut client, Manner { room: 0, ..manner(UpstreamProtocol::Cgi) });
    world.complete(&mut client);
    let jobs = world.disk.done["spool"];
    world.hear(&mut client, |program| program.deaf = true);
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!((&*reply(&client.got).body, world.disk.done["spool"]), (&b"hello"[..], jobs));
    assert!(client.connection.is_idle());
}

/// A stage of *pipelined* that waits for the job gets no events of sockets meanwhile.
#[test]
fn what_happened_while_a_part_was_brought_back_is_not_missed() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, &request(UpstreamProtocol::Cgi, text(200_000), 60_000));
    while client.begin.is_none() {
        world.complete(&mut client);
    }
    world.begin(&mut client, Manner { room: 64 << 10, ..manner(UpstreamProtocol::Cgi) });
    assert_eq!(world.complete(&mut client), Waits::ForJob);
    let program = client.program.as_mut().unwrap();
    assert_eq!(program.told.len(), 64 << 10);
    program.say(ANSWER);
    (program.deaf, program.ended) = (true, true);
    world.complete(&mut client);
    assert_eq!(&*reply(&client.got).body, b"hello");
}

#[test]
fn a_slow_client_has_no_more_time_because_its_body_is_written() {
    let mut world = world_of_programs();
    let mut client = spooling(&mut world);
    while world.complete(&mut client) == Waits::ForJob {}
    // 30,000 bytes at 500 a second, and ten seconds, of which six were an advance on these bytes.
    let mut waited_ms = 0;
    while client.got.is_empty() {
        world.pass_ms(&mut client, 1_000);
        waited_ms += 1_000;
    }
    assert_eq!(reply(&client.got).status, 408);
    assert!((63_000..66_000).contains(&waited_ms), "{waited_ms}");
}

/// Ten thousand clients that have begun to send: their memory is limited together.
#[test]
fn many_bodies_take_no_more_memory_than_there_is() {
    let mut world = world_of_programs();
    let answers = Budget::new(8 << 20);
    world.routes().answers = Arc::clone(&answers);
    let piece = request(UpstreamProtocol::Cgi, text(300_000), 60_000);
    let piece = &piece[..200_000];
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = world.connect();
        let mut waits = world.receive(&mut client, piece);
        while waits == Waits::ForJob {
            waits = world.complete(&mut client);
        }
        clients.push(client);
    }
    assert!(answers.left_bytes() <= answers.bytes_max(), "what there is");
    assert!(world.disk.open_files() > 100, "{} are elsewhere", world.disk.open_files());
    drop(clients);
    assert_eq!((answers.left_bytes(), world.disk.open_files()), (answers.bytes_max(), 0));
}
