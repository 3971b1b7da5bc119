//! Which connections give way to new ones, and since when they could.

use flash_h2::frame::{PREFACE, flag, kind};

use super::programs::{post, world_of_programs};
use super::*;
use crate::clients::deadline::FLUSH_BYTES;
use crate::connection::evictable::Evictable::{self, Behind, Idle, Unfinished};
use crate::connection::transport::TransportInfo;
use crate::record::Peer;
use crate::testing::{H2Client, Manner, raw};
use crate::upstream::UpstreamProtocol;

fn evictable(world: &World, client: &Client) -> Option<Evictable> {
    let unacknowledged = || client.socket.unacknowledged;
    client.connection.evictable(world.now.ms(), &world.server.settings, unacknowledged)
}

fn evictable_h2(world: &World, client: &H2Client) -> Option<Evictable> {
    client.connection().evictable(world.now.ms(), &world.server.settings, || 0)
}

#[test]
fn a_client_is_idle_between_two_requests_and_unfinished_before_its_first_and_within_a_head() {
    let mut world = world();
    let (mut kept, mut large, mut busy) = (world.connect(), world.connect(), world.connect());
    let at_ms = world.now.ms();
    assert_eq!(evictable(&world, &kept), Some(Unfinished(at_ms)), "one that has said nothing yet");
    world.jobs = Jobs::AtOnce;
    world.pass_ms(&mut kept, 3_000);
    world.receive(&mut kept, get("/small.txt").as_bytes());
    world.pass_ms(&mut kept, 2_000);
    world.receive(&mut large, get("/large.bin").as_bytes());
    world.receive(&mut busy, b"GET /");
    world.pass_ms(&mut kept, 1_000);
    assert!(large.got.len() as u64 > FLUSH_BYTES);
    assert_eq!(evictable(&world, &kept), Some(Idle(at_ms + 3_000)));
    assert_eq!(evictable(&world, &large), Some(Idle(at_ms + 5_000)), "the kernel has the rest");
    assert_eq!(evictable(&world, &busy), Some(Unfinished(at_ms)), "its first head counts from the beginning");
    world.receive(&mut kept, b"GET / HTTP/1.1\r\n");
    world.pass_ms(&mut kept, 2_000);
    world.receive(&mut kept, b"Host: a\r\n");
    assert_eq!(evictable(&world, &kept), Some(Unfinished(at_ms + 6_000)), "more bytes are no whole head");
}

#[test]
fn a_client_that_goes_on_sending_after_its_answer_is_idle() {
    let mut world = world();
    let mut client = world.connect();
    world.receive(&mut client, b"POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n");
    let at_ms = world.now.ms();
    assert_eq!(evictable(&world, &client), Some(Idle(at_ms)));
    world.pass_ms(&mut client, 1_500);
    world.receive(&mut client, b"a part of the body");
    assert_eq!(evictable(&world, &client), Some(Idle(at_ms + 1_500)), "silent since its last byte");
}

#[test]
fn a_header_of_the_proxy_protocol_that_is_not_complete_is_unfinished() {
    let mut world = world();
    let mut client = world.connect();
    let transport = TransportInfo { proxy_header: true, ..TransportInfo::plain(Peer::Unix) };
    client.connection = Connection::new(transport, &world.server.settings, &world.now);
    let at_ms = world.now.ms();
    world.receive(&mut client, b"PROXY TCP4 192.0.2.1");
    assert_eq!(evictable(&world, &client), Some(Unfinished(at_ms)));
}

#[test]
fn a_client_that_does_not_read_is_behind_after_a_second() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::with_room(20_000);
    let at_ms = world.now.ms();
    world.receive(&mut client, get("/large.bin").as_bytes());
    client.socket.unacknowledged = client.got.len() as u64;
    world.pass_ms(&mut client, 900);
    assert_eq!(evictable(&world, &client), None);
    world.pass_ms(&mut client, 200);
    assert_eq!(evictable(&world, &client), Some(Behind(at_ms)));
    // 2000 bytes are worth four seconds.
    client.socket.unacknowledged -= 2_000;
    assert_eq!(evictable(&world, &client), None);
    world.pass_ms(&mut client, 3_900);
    assert_eq!(evictable(&world, &client), Some(Behind(at_ms + 4_000)));
    client.socket.unacknowledged = 0;
    assert_eq!(evictable(&world, &client), None, "it has read all");
}

#[test]
fn a_client_that_does_not_send_its_body_is_behind_and_one_that_waits_for_its_program_stays() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    let at_ms = world.now.ms();
    world.receive(&mut client, post(100_000).as_bytes());
    assert_eq!(evictable(&world, &client), None);
    world.pass_ms(&mut client, 1_500);
    assert_eq!(evictable(&world, &client), Some(Behind(at_ms)));
    world.receive(&mut client, &[b'x'; 1_000]);
    assert_eq!(evictable(&world, &client), None);
    world.receive(&mut client, &[b'x'; 99_000]);
    world.complete_all(&mut client);
    world.begin(
        &mut client,
        Manner { protocol: UpstreamProtocol::Cgi, used: false, room: 1 << 20, answer: None },
    );
    world.pass_ms(&mut client, 9_000);
    assert_eq!(evictable(&world, &client), None, "its program has all");
    // A body that nobody needs.
    let mut client = world.connect();
    let at_ms = world.now.ms();
    world.receive(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    world.pass_ms(&mut client, 2_000);
    assert_eq!(evictable(&world, &client), Some(Behind(at_ms)));
}

#[test]
fn where_the_speed_does_not_matter_nobody_is_behind() {
    let mut world = world_with(Settings { send_rate_min: 0, ..Settings::default() });
    world.jobs = Jobs::AtOnce;
    let mut client = world.connect();
    client.socket = Socket::FULL;
    world.receive(&mut client, get("/large.bin").as_bytes());
    world.pass_ms(&mut client, 60_000);
    assert_eq!(evictable(&world, &client), None);
}

#[test]
fn over_http_2_a_first_request_and_a_block_that_are_not_complete_are_unfinished() {
    let mut world = world();
    let at_ms = world.now.ms();
    let mut client = H2Client::connect(&mut world, 1 << 30);
    client.pass_ms(&mut world, 2_000);
    assert_eq!(evictable_h2(&world, &client), Some(Unfinished(at_ms)), "its preface alone");
    client.get(&mut world, 1, "/small.txt");
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    client.pass_ms(&mut world, 1_000);
    assert_eq!(evictable_h2(&world, &client), Some(Idle(at_ms + 2_000)));
    let block = H2Client::request(3, "GET", "/small.txt", &[], flag::END_STREAM);
    let payload = &block[9..];
    // The rest would come in a CONTINUATION frame.
    client.send(&mut world, &raw(kind::HEADERS, flag::END_STREAM, 3, &payload[..5]));
    client.pass_ms(&mut world, 1_000);
    assert_eq!(evictable_h2(&world, &client), Some(Unfinished(at_ms + 3_000)));
    client.send(&mut world, &raw(kind::CONTINUATION, flag::END_HEADERS, 3, &payload[5..]));
    assert_eq!(evictable_h2(&world, &client), Some(Idle(at_ms + 4_000)));
    // A part of the preface is a part of a head.
    let mut begun = world.connect();
    let at_ms = world.now.ms();
    world.receive(&mut begun, &PREFACE[..10]);
    world.pass_ms(&mut begun, 500);
    assert_eq!(evictable(&world, &begun), Some(Unfinished(at_ms)));
}

#[test]
fn over_http_2_a_client_is_behind_if_all_its_streams_wait_for_it() {
    let mut world = world();
    // Its windows are closed.
    let mut client = H2Client::connect(&mut world, 0);
    let at_ms = world.now.ms();
    client.get(&mut world, 1, "/large.bin");
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    client.pass_ms(&mut world, 1_500);
    assert_eq!(evictable_h2(&world, &client), Some(Behind(at_ms)));
    world.jobs = Jobs::Later;
    client.get(&mut world, 3, "/middle.txt");
    assert!(!client.jobs.is_empty(), "the server looks for the second file");
    assert_eq!(evictable_h2(&world, &client), None);
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    assert_eq!(evictable_h2(&world, &client), None, "the second stream has just begun to wait");
    client.pass_ms(&mut world, 1_500);
    assert_eq!(evictable_h2(&world, &client), Some(Behind(at_ms + 1_500)));
}
