//! HTTP/2 on a connection: the same answers as over HTTP/1, many at a time, and clients that attack.

mod attacks;
mod flow_control;
mod programs;
mod simulation;
mod sites;

use flash_h2::frame::{flag, kind};

use super::*;
use crate::testing::{Answer, H2Client, raw};

const WINDOW: u32 = 65_535;
const WIDE: u32 = 1 << 30;

/// The answer to one request of a new client whose windows are wide.
fn ask(world: &mut World, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let mut client = H2Client::connect(world, WIDE);
    client.send(world, &H2Client::window(0, WIDE));
    client.send(world, &H2Client::request(1, method, path, fields, flag::END_STREAM));
    while !client.jobs.is_empty() {
        client.complete(world, 0);
    }
    client.answer(1).clone()
}

#[test]
fn the_same_site_gives_the_same_answers_as_over_http_1() {
    for (method, path, fields) in [
        ("GET", "/small.txt", &[][..]),
        ("GET", "/middle.txt", &[]),
        ("GET", "/empty.txt", &[]),
        ("GET", "/large.bin", &[]),
        ("GET", "/one-window.bin", &[]),
        ("HEAD", "/large.bin", &[]),
        ("GET", "/folder/", &[]),
        ("HEAD", "/folder/", &[]),
        ("GET", "/folder", &[]),
        ("GET", "/closed", &[]),
        ("GET", "/nothing", &[]),
        ("OPTIONS", "/small.txt", &[]),
        ("POST", "/small.txt", &[]),
        ("BREW", "/small.txt", &[]),
        ("GET", "/small.txt", &[("range", "bytes=3-7")]),
        ("GET", "/large.bin", &[("range", "bytes=0-1,1000000-2097160")]),
        ("GET", "/small.txt", &[("range", "bytes=1000-")]),
        ("GET", "/small.txt", &[("if-modified-since", "Sun, 06 Nov 2044 08:49:37 GMT")]),
        ("GET", "/small.txt", &[("if-match", "\"other\"")]),
        ("GET", "/%zz", &[]),
    ] {
        let (mut one, mut two) = (world(), world());
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let heads = if method == "HEAD" { &[0][..] } else { &[] };
        let h1 =
            replies(&one.ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")), heads).remove(0);
        let h2 = ask(&mut two, method, path, fields);
        assert_eq!(h2.status(), h1.status.to_string(), "{method} {path} {fields:?}");
        assert!(h2.body == h1.body, "{method} {path} {fields:?}");
        let line = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_lowercase(), value.to_owned())
        };
        let of_h1: Vec<_> = h1
            .head
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .map(line)
            .filter(|(name, _)| !matches!(&**name, "transfer-encoding" | "connection"))
            .collect();
        assert_eq!(h2.fields[1..], of_h1, "{method} {path} {fields:?}");
    }
}

#[test]
fn a_listing_takes_as_many_jobs_as_it_needs() {
    let whole = ask(&mut world(), "GET", "/folder/", &[]);
    let mut slow = world();
    slow.disk.short_steps = true;
    let in_steps = ask(&mut slow, "GET", "/folder/", &[]);
    assert!(slow.disk.done["list"] > 4, "{:?}", slow.disk.done);
    assert!(in_steps.body == whole.body && in_steps.has_ended, "{in_steps:?}");
}

#[test]
fn while_a_listing_is_made_no_client_is_late() {
    let mut world = world();
    (world.disk.short_steps, world.jobs, world.busy_ms) = (true, Jobs::AtOnce, 9_000);
    let listing = ask(&mut world, "GET", "/folder/", &[]);
    assert_eq!((listing.status(), listing.has_ended), ("200", true), "{listing:?}");
    assert!(world.disk.done["list"] > 7, "it took a minute: {:?}", world.disk.done);
}

#[test]
fn the_preface_may_come_in_pieces_and_http_1_is_not_taken_for_it() {
    let mut world = world();
    let bytes = [
        &flash_h2::frame::PREFACE[..],
        &[0, 0, 0, kind::SETTINGS, 0, 0, 0, 0, 0],
        &H2Client::request(1, "GET", "/small.txt", &[], flag::END_STREAM),
    ]
    .concat();
    for cut in 1..bytes.len() {
        let mut client = world.connect();
        world.receive(&mut client, &bytes[..cut]);
        world.receive(&mut client, &bytes[cut..]);
        world.complete_all(&mut client);
        assert_eq!(client.got[3], kind::SETTINGS, "the settings come first");
        assert!(memchr::memmem::find(&client.got, text(100)).is_some(), "cut at {cut}");
    }
    for head in
        ["P", "PR", "PRI", "PRI ", "PRI /x HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\n\r\n"]
    {
        let mut client = world.connect();
        for byte in head.as_bytes() {
            world.receive(&mut client, &[*byte]);
        }
        assert!(client.connection.h1().input().is_empty() != (head.len() < 5));
    }
    world.server.settings.http2 = false;
    assert_eq!(reply(&world.ask(flash_h2::frame::PREFACE)).status, 400);
}

/// RFC 9113 §6.5.3: the client learns that its settings hold before it gets what they hold for.
#[test]
fn settings_are_acknowledged_before_later_requests_are_answered() {
    let mut world = world();
    world.ask(get("/small.txt"));
    let mut client = world.connect();
    let settings = raw(kind::SETTINGS, 0, 0, &[]);
    let requests = [1, 3].map(|stream| H2Client::request(stream, "GET", "/small.txt", &[], flag::END_STREAM));
    let bytes = [&flash_h2::frame::PREFACE[..], &settings, &requests[0], &settings, &requests[1]].concat();
    world.receive(&mut client, &bytes);
    let mut got = &client.got[..];
    let mut kinds = Vec::new();
    while let Some((header, rest)) = got.split_first_chunk() {
        let header = flash_h2::frame::FrameHeader::of(header);
        kinds.push(header.kind);
        got = &rest[header.length as usize..];
    }
    let own = [kind::SETTINGS, kind::WINDOW_UPDATE];
    let answer = [kind::SETTINGS, kind::HEADERS, kind::DATA];
    assert_eq!(kinds, [&own[..], &answer, &answer].concat());
}

#[test]
fn many_responses_share_the_connection_in_turns_and_the_urgent_come_first() {
    let mut world = world();
    world.ask(get("/large.bin"));
    let mut client = H2Client::connect(&mut world, WIDE);
    client.send(&mut world, &H2Client::window(0, WIDE));
    client.room = 0;
    for (stream, urgency) in [(1, "u=5"), (3, "u=3"), (5, "u=3"), (7, "u=0")] {
        let fields = [("priority", urgency)];
        let request = H2Client::request(stream, "GET", "/large.bin", &fields, flag::END_STREAM);
        client.send(&mut world, &request);
    }
    client.make_room(&mut world, usize::MAX);
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    for stream in [1, 3, 5, 7] {
        assert!(client.answer(stream).body == **TEXT, "{stream}");
    }
    let place = |stream: u32| client.order.iter().rposition(|other| *other == stream).unwrap();
    assert!(place(7) < place(3) && place(3) < place(1));
    let first_of = |stream: u32| client.order.iter().position(|other| *other == stream).unwrap();
    assert!(first_of(5) < place(3) && first_of(3) < place(5), "equals take turns");
}

#[test]
fn a_window_of_the_client_is_never_exceeded() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, 1_000);
    client.get(&mut world, 1, "/large.bin");
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    assert_eq!(client.answers[&1].body.len(), 1_000);
    client.send(&mut world, &H2Client::window(1, 100_000));
    assert_eq!(client.answers[&1].body.len(), 65_535, "the connection's window");
    client.send(&mut world, &H2Client::window(0, WIDE));
    assert_eq!(client.answers[&1].body.len(), 101_000);
    client.send(&mut world, &H2Client::window(1, WIDE));
    assert!(client.answer(1).body == **TEXT);
}

#[test]
fn a_blocked_socket_in_the_middle_of_a_frame_is_no_end_of_it() {
    for (look, room) in
        [(Look::Resident, 20_000), (Look::Copied, 20_000), (Look::Resident, 7), (Look::Copied, 40)]
    {
        let mut world = world();
        let mut client = H2Client::connect(&mut world, WIDE);
        client.send(&mut world, &H2Client::window(0, WIDE));
        client.room = 0;
        client.get(&mut world, 1, "/one-window.bin");
        client.get(&mut world, 3, "/small.txt");
        for count in 0..2_000 {
            // Pages leave the cache between two attempts.
            world.disk.script([if count % 3 == 0 { Look::Absent } else { look }]);
            client.make_room(&mut world, room);
            while !client.jobs.is_empty() {
                client.complete(&mut world, 0);
            }
        }
        assert!(
            client.answer(1).body == text(10_000) && client.answer(3).body == text(100),
            "{look:?} {room}"
        );
    }
}

#[test]
fn a_body_that_nothing_reads_is_dropped_and_the_answer_comes_at_once() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &[], 0));
    assert_eq!(client.answer(1).status(), "405");
    for _ in 0..80 {
        client.send(&mut world, &H2Client::data(1, &[0; 16_000], 0));
    }
    assert!(client.goaways.is_empty());
    client.get(&mut world, 3, "/small.txt");
    assert_eq!(client.answer(3).body, text(100));
    assert!(client.end(&mut world) == Waits::Closed);
}

/// Its client got a response early, and left. The rest of the body will never come, so nothing waits for that.
#[test]
fn a_client_that_leaves_in_the_middle_of_an_answered_upload_is_not_waited_for() {
    let fields = [("content-length", "500000")];
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &fields, 0));
    client.send(&mut world, &H2Client::data(1, &[0; 10_000], 0));
    assert_eq!(client.answer(1).status(), "405");
    assert_eq!(client.end(&mut world), Waits::Closed);
    // The response is still on its way when the client shuts down its side.
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.room = 0;
    client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", &fields, 0));
    assert_ne!(client.end(&mut world), Waits::Closed);
    assert_eq!(client.make_room(&mut world, usize::MAX), Waits::Closed);
    assert_eq!(client.answer(1).status(), "405");
}

#[test]
fn a_length_that_differs_from_the_data_is_malformed() {
    for (fields, data) in [
        (&[("content-length", "5")][..], &b"abc"[..]),
        (&[("content-length", "2")], b"abc"),
        (&[("content-length", "0")], b"a"),
        (&[("content-length", "x")], b""),
    ] {
        let mut world = world();
        let mut client = H2Client::connect(&mut world, WINDOW);
        client.send(&mut world, &H2Client::request(1, "POST", "/small.txt", fields, 0));
        client.send(&mut world, &H2Client::data(1, data, flag::END_STREAM));
        let answer = &client.answers[&1];
        assert!(answer.reset == Some(1) || answer.status() == "400", "{fields:?}: {answer:?}");
    }
}

#[test]
fn hosts_limits_and_malformed_targets_are_answered_as_over_http_1() {
    let mut world = world_with(Settings {
        head: flash_http::head::Limits { target_bytes_max: 50, head_bytes_max: 1_000, fields_max: 10 },
        ..Settings::default()
    });
    let long = "/".repeat(60);
    assert_eq!(ask(&mut world, "GET", &long, &[]).status(), "414");
    assert_eq!(ask(&mut world, "GET", "/", &[("a", &"x".repeat(1_200))]).status(), "431");
    assert_eq!(ask(&mut world, "GET", "/", &[("a", "b"); 11]).status(), "431");
    assert_eq!(ask(&mut world, "GET", "/small.txt", &[("cookie", "a=b"); 30]).status(), "200");
    assert_eq!(ask(&mut world, "GET", "/", &[("cookie", "a"); 50]).status(), "431", "crumbs are counted");
    let lines: Vec<u16> = world.tally.records.iter().map(|record| record.status).collect();
    assert_eq!(lines, [414, 431, 431, 200, 431]);
}

#[test]
fn each_response_has_its_record() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WIDE);
    client.send(&mut world, &H2Client::window(0, WIDE));
    client.get(&mut world, 1, "/large.bin");
    client.get(&mut world, 3, "/small.txt");
    client.get(&mut world, 5, "/nothing");
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    let mut records: Vec<(String, u16, u64, bool)> = world
        .tally
        .records
        .drain(..)
        .map(|record| {
            let line = String::from_utf8(record.request_line.to_vec()).unwrap();
            (line, record.status, record.body_bytes, record.cut)
        })
        .collect();
    records.sort();
    let large = ("GET /large.bin HTTP/2.0".into(), 200, LARGE_BYTES as u64, false);
    assert_eq!(records[0], large);
    assert_eq!(records[2], ("GET /small.txt HTTP/2.0".into(), 200, 100, false));
    client.room = 10_000;
    client.get(&mut world, 7, "/large.bin");
    client.with(&mut world, |connection, cx| connection.abort(cx));
    let [record] = &world.tally.records[..] else { panic!("one") };
    assert!(record.cut && record.body_bytes > 0 && record.body_bytes < LARGE_BYTES as u64);
}

#[test]
fn an_idle_connection_rests_and_ends_with_a_goaway() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.get(&mut world, 1, "/small.txt");
    assert!(client.connection().is_idle());
    assert!(client.connection().output().is_none(), "it holds no buffer");
    assert_eq!(client.connection().deadline_ms(), world.now.ms() + world.server.settings.idle_timeout_ms);
    client.pass_ms(&mut world, 60_000);
    assert_eq!(client.goaways, [(0, 1)]);
    assert_eq!(client.pass_ms(&mut world, 2_100), Waits::Closed);
}

#[test]
fn a_client_that_only_pings_is_idle() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WINDOW);
    let ping = raw(kind::PING, 0, 0, &[0; 8]);
    client.get(&mut world, 1, "/small.txt");
    for _ in 0..11 {
        client.pass_ms(&mut world, 5_000);
        client.send(&mut world, &ping);
        assert_eq!(client.goaways, []);
    }
    // A request is more than a sign of life.
    client.get(&mut world, 3, "/small.txt");
    for _ in 0..11 {
        client.pass_ms(&mut world, 5_000);
        client.send(&mut world, &ping);
        assert_eq!(client.goaways, []);
    }
    client.pass_ms(&mut world, 5_000);
    assert_eq!(client.goaways, [(0, 3)]);
}

#[test]
fn a_drain_lets_streams_end_and_takes_no_more() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = H2Client::connect(&mut world, WIDE);
    client.get(&mut world, 1, "/small.txt");
    world.drain = Drain::AtOnce;
    client.turn(&mut world);
    assert_eq!(client.goaways, [(0, (1 << 31) - 1)]);
    client.get(&mut world, 3, "/small.txt");
    client.send(&mut world, &[&[0, 0, 8, kind::PING, flag::ACK, 0, 0, 0, 0][..], b"draining"].concat());
    assert_eq!(client.goaways[1..], [(0, 3)]);
    client.get(&mut world, 5, "/small.txt");
    while !client.jobs.is_empty() {
        client.complete(&mut world, 0);
    }
    assert_eq!((client.answer(1).status(), client.answer(3).status()), ("200", "200"));
    assert!(!client.answers.contains_key(&5));
    assert_eq!(client.end(&mut world), Waits::Closed);
    // A client that does not answer is waited for no longer than a second.
    world.drain = Drain::No;
    let mut client = H2Client::connect(&mut world, WIDE);
    world.drain = Drain::AtOnce;
    client.turn(&mut world);
    client.pass_ms(&mut world, 1_001);
    assert_eq!(client.goaways.len(), 2);
    assert_eq!(client.pass_ms(&mut world, 2_100), Waits::Closed);
}

#[test]
fn late_jobs_and_stalled_clients_have_deadlines_of_their_own() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = H2Client::connect(&mut world, 100);
    client.get(&mut world, 1, "/small.txt");
    client.pass_ms(&mut world, 5_000);
    client.get(&mut world, 3, "/middle.txt");
    client.pass_ms(&mut world, 5_001);
    assert_eq!(client.answers[&1].status(), "503", "its job is late");
    assert!(!client.answers.contains_key(&3));
    let second = client.jobs.iter().position(|(id, _)| id.stream() == 3).unwrap();
    client.complete(&mut world, second);
    assert_eq!(client.answers[&3].body.len(), 100);
    client.complete(&mut world, 0);
    assert_eq!(client.answers[&1].fields.iter().filter(|(name, _)| name == ":status").count(), 1);
    // The client never opens its window again.
    let mut passed_ms = 0;
    while client.answers[&3].reset.is_none() {
        client.pass_ms(&mut world, 500);
        passed_ms += 500;
        assert!(passed_ms < 30_000, "a stalled stream stays");
    }
    assert_eq!(client.answers[&3].reset, Some(8), "CANCEL");
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    let mut world = world();
    let mut client = H2Client::connect(&mut world, WIDE);
    client.send(&mut world, &H2Client::window(0, WIDE));
    client.room = 50_000;
    client.get(&mut world, 1, "/large.bin");
    let mut waits = Waits::ForRoom;
    for _ in 0..1_000 {
        if waits == Waits::Closed {
            break;
        }
        waits = client.pass_ms(&mut world, 1_000);
    }
    assert!(waits == Waits::Closed && client.is_reset());
}
