//! Rates of bytes: how long responses take, over HTTP/1 and HTTP/2, from memory, from files and from programs.

use std::sync::atomic::AtomicU64;

use super::programs::{manner, routes, running};
use super::*;
use crate::clients::{Clients, Rates};
use crate::record::Peer;
use crate::site::places::{PlaceNames, Places};
use crate::site::{Site, SiteSettings};
use crate::testing::H2Client;
use crate::upstream::UpstreamProtocol;

struct Table(Vec<AtomicU64>);

impl AsRef<[AtomicU64]> for Table {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

const RATE: &str = "300K/s";
const BYTES_PER_S: u64 = 300 << 10;

/// Gives a site its rates, before the first request.
pub(super) fn limit(world: &mut World, rates: Rates) {
    let words = Arc::new(Table((0..64).map(|_| AtomicU64::new(0)).collect()));
    world.server.settings.clients = Clients::unlimited().with_byte_rates(words);
    world.rules().rates = rates;
}

fn world_of(rates: Rates) -> World {
    let mut world = world();
    limit(&mut world, rates);
    world
}

fn limited() -> World {
    world_of(Rates { client: Some(RATE.parse().unwrap()), total: None })
}

/// Gives clients their turns as a loop does, until none waits for its rate. Returns the time that has passed.
fn pull_ms(world: &mut World, clients: &mut [Client]) -> u64 {
    let begun_ms = world.now.ms();
    for _ in 0..100_000 {
        let mut next_ms = None;
        for client in &mut *clients {
            let mut waits = world.turn(client);
            if matches!(waits, Waits::ForJob) {
                waits = world.complete_all(client);
            }
            assert!(!matches!(waits, Waits::ForJob | Waits::ForRoom | Waits::Closed), "{waits:?}");
            next_ms = next_ms.into_iter().chain(client.connection.paced_until_ms()).min();
        }
        let Some(next_ms) = next_ms else { return world.now.ms() - begun_ms };
        // A wheel has ticks.
        world.now.advance((next_ms + 10) * 1000);
        world.disk.forget_vouched();
    }
    panic!("it never ends");
}

/// Bytes at the rate of these tests take so long, but for those that may come at once.
#[track_caller]
fn assert_paced(took_ms: u64, bytes: usize) {
    let expected = (bytes as u64).saturating_sub(BYTES_PER_S / 4) * 1000 / BYTES_PER_S;
    assert!(took_ms.abs_diff(expected) <= expected / 20 + 100, "{took_ms} ms, not {expected}");
}

#[test]
fn a_file_takes_as_long_over_any_number_of_connections() {
    for count in [1, 5, 16] {
        let mut world = limited();
        let part = LARGE_BYTES / count;
        let mut clients: Vec<Client> = (0..count).map(|_| world.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let range = format!("Range: bytes={}-{}\r\n", number * part, (number + 1) * part - 1);
            let head = format!("GET /large.bin HTTP/1.1\r\nHost: a\r\n{range}\r\n");
            world.receive(client, head.as_bytes());
        }
        assert_paced(pull_ms(&mut world, &mut clients), part * count);
        for (number, client) in clients.iter().enumerate() {
            let reply = reply(&client.got);
            assert_eq!((reply.status, &*reply.body), (206, &TEXT[number * part..(number + 1) * part]));
        }
    }
}

#[test]
fn no_window_is_larger_than_what_may_be_sent() {
    let mut world = limited();
    let mut client = world.connect();
    world.receive(&mut client, get("/large.bin").as_bytes());
    pull_ms(&mut world, std::slice::from_mut(&mut client));
    let asked: Vec<u64> =
        world.disk.take_asked().into_iter().map(|window| window.end - window.start).collect();
    assert!(asked.len() > 100 && asked.iter().all(|bytes| *bytes <= 16 << 10), "{asked:?}");
}

#[test]
fn responses_from_memory_are_paced_and_requests_behind_them_wait() {
    let mut world = limited();
    let mut client = world.connect();
    let (count, bytes) = (200, 6_000);
    world.receive(&mut client, get("/middle.txt").repeat(count).as_bytes());
    assert_paced(pull_ms(&mut world, std::slice::from_mut(&mut client)), count * bytes);
    assert_eq!(statuses(&client.got), vec![200; count]);
    assert_eq!(client.connection.paced_until_ms(), None, "nothing is reserved between requests");
}

#[test]
fn a_paced_client_is_not_late() {
    let mut world = world_of(Rates { client: Some("100/s".parse().unwrap()), total: None });
    let mut client = world.connect();
    world.receive(&mut client, get("/middle.txt").as_bytes());
    let took_ms = pull_ms(&mut world, std::slice::from_mut(&mut client));
    assert!(took_ms > 50_000, "{took_ms}");
    assert_eq!(statuses(&client.got), [200]);
}

#[test]
fn streams_share_the_rate_and_others_go_on() {
    let mut world = limited();
    let plain = Site::default();
    let names = PlaceNames::new([], [&b"/small.txt"[..]].map(Into::into), []);
    let places = Places::new(Arc::new(names), vec![Arc::new(plain)]);
    world.site().places = Some(places);
    let mut client = H2Client::connect(&mut world, 1 << 24);
    let grant = H2Client::window(0, 1 << 24);
    client.send(&mut world, &grant);
    for stream in [1, 3, 5] {
        client.get(&mut world, stream, "/large.bin");
    }
    let begun_ms = world.now.ms();
    let mut turns = 0;
    while let Some(next_ms) = client.connection().paced_until_ms() {
        turns += 1;
        world.now.advance((next_ms + 10) * 1000);
        client.turn(&mut world);
        if turns == 10 {
            client.get(&mut world, 7, "/small.txt");
            assert_eq!(client.answer(7).body.len(), 100, "its place has no rate");
        }
        while !client.jobs.is_empty() {
            client.complete(&mut world, 0);
        }
    }
    assert_paced(world.now.ms() - begun_ms, 3 * LARGE_BYTES);
    for stream in [1, 3, 5] {
        assert!(client.answer(stream).body == **TEXT, "stream {stream}");
    }
}

#[test]
fn streams_whose_windows_are_shut_reserve_nothing() {
    let mut world = limited();
    let mut stalled = H2Client::connect(&mut world, 0);
    for stream in (1..60).step_by(2) {
        stalled.get(&mut world, stream, "/large.bin");
    }
    assert_eq!(stalled.connection().paced_until_ms(), None);
    let mut client = world.connect();
    world.receive(&mut client, get("/large.bin").as_bytes());
    assert_paced(pull_ms(&mut world, std::slice::from_mut(&mut client)), LARGE_BYTES);
}

#[test]
fn a_total_is_for_all_clients() {
    let mut world = world_of(Rates { client: None, total: Some(RATE.parse().unwrap()) });
    let mut clients: Vec<Client> = (0..3)
        .map(|number| {
            let mut client = world.connect();
            client.connection.h1_mut().set_peer(Peer::Inet(([192, 0, 2, number], 1).into()));
            world.receive(&mut client, get("/large.bin").as_bytes());
            client
        })
        .collect();
    assert_paced(pull_ms(&mut world, &mut clients), 3 * LARGE_BYTES);
}

/// The program says its body at once, and its client gets it by and by.
#[test]
fn what_programs_answer_is_paced_as_they_say() {
    for (rates, said, is_paced) in [
        (Some(RATE), "", true),
        (None, "X-Accel-Limit-Rate: 307200\n", true),
        (Some("1G/s"), "X-Accel-Limit-Rate: 307200\n", true),
        (Some(RATE), "X-Accel-Limit-Rate: 0\n", false),
        (Some(RATE), "X-Accel-Limit-Rate: fast\n", true),
        (None, "X-Accel-Limit-Rate: 99999999999999999999999\n", false),
        (None, "", false),
    ] {
        let mut world = world_of(Rates { client: rates.map(|rate| rate.parse().unwrap()), total: None });
        world.site().routes = Some(routes().into());
        let mut client = running(&mut world, &get("/app/x"), UpstreamProtocol::Cgi);
        let body = text(500_000);
        world.hear(&mut client, |program| {
            program.say(format!("{said}Content-Length: {}\n\n", body.len()).as_bytes());
            program.say(body);
        });
        world.hear(&mut client, |program| program.ended = true);
        let took_ms = pull_ms(&mut world, std::slice::from_mut(&mut client));
        match is_paced {
            true => assert_paced(took_ms, body.len()),
            false => assert_eq!(took_ms, 0, "{rates:?} {said}"),
        }
        let reply = reply(&client.got);
        assert_eq!((&*reply.body, reply.field("X-Accel-Limit-Rate")), (body, None), "{rates:?} {said}");
    }
}

#[test]
fn a_file_that_a_program_hands_on_has_the_rate_that_it_says() {
    let mut world = world_of(Rates::default());
    let internal = |settings: SiteSettings| Site { settings: settings.into(), ..Site::default() };
    let names = PlaceNames::new([], [&b"/large.bin"[..]].map(Into::into), []);
    let place = internal(SiteSettings { internal: true, ..SiteSettings::default() });
    let site = world.site();
    site.places = Some(Places::new(Arc::new(names), vec![Arc::new(place)]));
    (site.routes, site.hands_files_on) = (Some(routes().into()), true);
    let mut client = world.connect();
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world.receive(&mut client, get("/app/x").as_bytes());
    world.hear(&mut client, |program| {
        program.say(b"X-Accel-Redirect: /large.bin\nX-Accel-Limit-Rate: 307200\n\n");
        program.ended = true;
    });
    assert_paced(pull_ms(&mut world, std::slice::from_mut(&mut client)), LARGE_BYTES);
    assert!(*reply(&client.got).body == **TEXT);
}

/// A request behind a response that waits, be it for a place without a rate or no request at all.
#[test]
fn a_request_behind_a_paced_response_does_not_end_its_pace() {
    let mut world = limited();
    let names = PlaceNames::new([], [&b"/small.txt"[..]].map(Into::into), []);
    world.site().places = Some(Places::new(Arc::new(names), vec![Arc::new(Site::default())]));
    for behind in [&*get("/small.txt"), "GET /a HTTP/1.1\r\nHost: b\r\n\r\n", "?\r\n\r\n"] {
        world.now.advance((world.now.ms() + 60_000) * 1000);
        let mut client = world.connect();
        world.receive(&mut client, (get("/middle.txt").repeat(20) + behind).repeat(2).as_bytes());
        let took_ms = pull_ms(&mut world, std::slice::from_mut(&mut client));
        assert!(client.got.len() > 20 * 6_000, "{behind}");
        assert_paced(took_ms, client.got.len());
    }
}

#[test]
fn a_program_whose_client_is_paced_is_not_given_up() {
    let mut world = world_of(Rates { client: Some("1K/s".parse().unwrap()), total: None });
    world.server.settings.program_send_ms = 1_000;
    world.site().routes = Some(routes().into());
    let mut client = running(&mut world, &get("/app/x"), UpstreamProtocol::Cgi);
    let body = text(300_000);
    world.hear(&mut client, |program| {
        program.say(format!("Content-Length: {}\n\n", body.len()).as_bytes());
        program.say(body);
    });
    world.hear(&mut client, |program| program.ended = true);
    pull_ms(&mut world, std::slice::from_mut(&mut client));
    assert_eq!(reply(&client.got).body.len(), body.len());
}
