//! Clients that attack: what they get is an answer, a reset, or the end of the connection, and no memory.

use super::*;

/// How many rounds until the connection has ended with ENHANCE_YOUR_CALM.
#[track_caller]
fn rounds(world: &mut World, most: u32, mut round: impl FnMut(u32) -> Vec<u8>) -> u32 {
    let mut client = H2Client::connect(world, WINDOW);
    for count in 0..most {
        client.send(world, &round(count));
        if let Some((code, _)) = client.goaways.first() {
            assert_eq!(*code, 0xb);
            return count;
        }
    }
    panic!("it takes them all");
}

#[test]
fn rapid_reset_and_made_you_reset_end_the_connection() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let stream = |count: u32| 2 * count + 1;
    let get = |count| H2Client::request(stream(count), "GET", "/large.bin", &[], flag::END_STREAM);
    let count = rounds(&mut world, 1_000, |count| {
        [get(count), raw(kind::RST_STREAM, 0, stream(count), &[0; 4])].concat()
    });
    assert!(count <= 400, "{count}");
    let count = rounds(&mut world, 1_000, |count| [get(count), H2Client::window(stream(count), 0)].concat());
    assert!(count <= 400, "{count}");
    // Beyond the limit of streams: these resets count, too.
    assert!(rounds(&mut world, 1_000, get) <= 128 + 400);
}

#[test]
fn no_more_than_128_streams_have_jobs_at_a_time() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = H2Client::connect(&mut world, WINDOW);
    for count in 0..200 {
        client.get(&mut world, 2 * count + 1, &format!("/missing-{count}"));
    }
    assert_eq!(client.jobs.len(), 128);
    assert_eq!(client.answers.values().filter(|answer| answer.reset == Some(7)).count(), 72);
}

#[test]
fn floods_of_frames_without_use_end_the_connection() {
    let mut world = world();
    let many = |frame: Vec<u8>| frame.repeat(100);
    for frame in [
        raw(kind::PING, 0, 0, &[0; 8]),
        raw(kind::SETTINGS, 0, 0, &[]),
        raw(kind::PRIORITY, 0, 1, &[0; 5]),
        H2Client::window(0, 1),
    ] {
        assert!(rounds(&mut world, 100, |_| many(frame.clone())) <= 21);
    }
    let empty = |count: u32| match count {
        0 => H2Client::request(1, "POST", "/small.txt", &[], 0),
        _ => many(H2Client::data(1, b"", 0)),
    };
    assert!(rounds(&mut world, 100, empty) <= 22);
    let continuations = |count: u32| match count {
        0 => raw(kind::HEADERS, 0, 1, &[]),
        _ => raw(kind::CONTINUATION, 0, 1, &[]),
    };
    assert!(rounds(&mut world, 100, continuations) <= 10);
}

/// A client that sends pings and reads nothing makes the server keep their answers: as much as an output holds, and no more.
#[test]
fn a_client_that_does_not_read_its_answers_is_not_read() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.room = 0;
    let mut waits = Waits::ForBytes;
    for count in 0..2_000 {
        waits = client.get(&mut world, 2 * count + 1, "/middle.txt");
        if !wants_bytes(waits) {
            break;
        }
    }
    assert!(!wants_bytes(waits), "it reads without end");
    client.make_room(&mut world, usize::MAX);
    assert!(client.answers.len() > 10);
}

fn wants_bytes(waits: Waits) -> bool {
    match waits {
        Waits::ForProgram(interest) => interest.client_in,
        waits => waits == Waits::ForBytes,
    }
}

#[test]
fn a_bomb_of_fields_is_answered_and_costs_no_memory() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    // A field of 3 KB in the table, named 16,000 times by a byte each.
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xb9, 0x16];
    block.extend_from_slice(&[b'x'; 3_000]);
    block.extend_from_slice(&[0xbe; 13_000]);
    client.send(&mut world, &raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block));
    let answer = &client.answers[&1];
    assert!(answer.status() == "431" || answer.reset.is_some(), "{answer:?}");
    assert!(world.buffers.scratch().text.capacity() < 100_000);
}

#[test]
fn a_half_sent_head_has_a_deadline() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.get(&mut world, 1, "/small.txt");
    let request = H2Client::request(3, "GET", "/small.txt", &[], flag::END_STREAM);
    client.send(&mut world, &request[..20]);
    client.pass_ms(&mut world, 10_001);
    assert_eq!(client.goaways.len(), 1);
}
