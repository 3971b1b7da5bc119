//! Programs that answer on streams: uploads with flow control, several at a time, and clients that leave.

use super::*;
use crate::connection::tests::programs::{manner, world_of_programs};
use crate::record::counters::Count;
use crate::testing::{BrokenOff, body_of, end_record, record};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

fn world_with_programs(protocol: UpstreamProtocol, room: usize) -> World {
    let mut world = world_of_programs();
    world.manner = Some(crate::testing::Manner { room, ..manner(protocol) });
    world
}

#[test]
fn programs_answer_at_a_time_and_know_the_protocol() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    client.send(&mut world, &H2Client::request(1, "GET", "/cgi/a?b=c", &cookies, flag::END_STREAM));
    client.get(&mut world, 3, "/cgi/b");
    let variables = &client.programs[0].begin.variables;
    let variable = |name: &[u8]| variables.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    assert_eq!(variable(b"SERVER_PROTOCOL").as_deref(), Some("HTTP/2.0"));
    assert_eq!(variable(b"HTTP_COOKIE").as_deref(), Some("a=1; b=2"));
    assert_eq!(variable(b"HTTP_HOST").as_deref(), Some("a"));
    assert_eq!(variable(b"QUERY_STRING").as_deref(), Some("b=c"));
    client
        .hear(&mut world, 3, |program| program.say(b"Status: 201 Made\nX-A: b\nConnection: close\n\nsecond"));
    client.hear(&mut world, 1, |program| {
        program.say(b"Content-Length: 5\n\nfirst");
        program.ended = true;
    });
    assert_eq!((client.answer(1).status(), &*client.answer(1).body), ("200", &b"first"[..]));
    assert!(!client.answers[&3].has_ended, "its program has not ended");
    client.hear(&mut world, 3, |program| program.ended = true);
    let answer = client.answer(3);
    assert_eq!((answer.status(), &*answer.body, answer.field("x-a")), ("201", &b"second"[..], Some("b")));
    assert!(answer.field("connection").is_none());
    assert!(client.connection().is_idle());
}

#[test]
fn an_upload_is_stored_and_its_program_reads_it_as_fast_as_it_likes() {
    let body: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        let mut world = world_with_programs(protocol, 10_000);
        world.jobs = Jobs::AtOnce;
        let path = if protocol == UpstreamProtocol::Cgi { "/cgi/a" } else { "/app/a" };
        let mut client = H2Client::connect(&mut world, WINDOW);
        let length = body.len().to_string();
        let fields = [("content-length", &*length)];
        client.send(&mut world, &H2Client::request(1, "POST", path, &fields, 0));
        let mut window = 65_535;
        let mut sent = 0;
        let mut updates = 0;
        for _ in 0..10_000 {
            let count = (body.len() - sent).min(window).min(16_000);
            let ends = sent + count == body.len();
            if count > 0 {
                let flags = if ends { flag::END_STREAM } else { 0 };
                client.send(&mut world, &H2Client::data(1, &body[sent..sent + count], flags));
                (sent, window) = (sent + count, window - count);
            } else {
                assert_eq!(sent, body.len(), "no window waits for a program");
                client.hear(&mut world, 1, |program| _ = program.live());
            }
            assert_eq!(client.programs.is_empty(), sent < body.len());
            let now = client.updates(1);
            window += now - updates;
            updates = now;
            if ends && client.programs[0].told.len() >= body.len() && body_told(&client) == body {
                break;
            }
        }
        assert!(body_told(&client) == body, "{protocol:?}: {sent} sent");
        client.hear(&mut world, 1, |program| match protocol {
            UpstreamProtocol::FastCgi => {
                program.say(record(6, b"Status: 204 None\n\n"));
                program.say(end_record());
            }
            _ => {
                program.say(b"Status: 204 None\n\n");
                program.ended = true;
            }
        });
        assert_eq!(client.answer(1).status(), "204");
        let how = if protocol == UpstreamProtocol::Cgi { ReleaseMode::Ended } else { ReleaseMode::Reusable };
        assert_eq!(client.programs[0].fate.finish(), Some(Ok(how)));
    }
}

/// The body that the program has been given.
fn body_told(client: &H2Client) -> Vec<u8> {
    let program = &client.programs[0];
    match program.manner.protocol {
        UpstreamProtocol::FastCgi => body_of(&program.told).unwrap_or_default(),
        _ => program.told.clone(),
    }
}

#[test]
fn a_body_without_a_length_is_stored_until_it_is_whole() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/cgi/a", &[("expect", "100-continue")], 0));
    assert_eq!(client.answers[&1].interim, ["100"]);
    client.send(&mut world, &H2Client::data(1, b"abc", 0));
    assert!(client.programs.is_empty());
    client.send(
        &mut world,
        &raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0, 1, b'a', 1, b'b']),
    );
    let program = &client.programs[0];
    assert_eq!(program.begin.variables.get(b"CONTENT_LENGTH"), Some(&b"3"[..]), "trailer fields end it");
    assert!(program.told == b"abc" && program.told_end);
    // Beyond the limit.
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    world.rules().body_bytes_max = 10;
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.send(&mut world, &H2Client::request(1, "POST", "/cgi/a", &[], 0));
    client.send(&mut world, &H2Client::data(1, b"12345678901", 0));
    assert_eq!(client.answers[&1].status(), "413");
}

#[test]
fn nothing_begins_before_the_end_of_a_body_whatever_its_length() {
    for (length, rest, expected) in
        [("0", &b""[..], None), ("0", b"a", Some(1)), ("3", b"abc", None), ("3", b"ab", Some(1))]
    {
        let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
        let mut client = H2Client::connect(&mut world, WINDOW);
        client.send(&mut world, &H2Client::request(1, "POST", "/cgi/a", &[("content-length", length)], 0));
        assert!(client.programs.is_empty(), "the client may send no more");
        client.send(&mut world, &H2Client::data(1, rest, flag::END_STREAM));
        assert_eq!(client.answers.get(&1).and_then(|answer| answer.reset), expected, "PROTOCOL_ERROR");
        assert_eq!(client.programs.first().is_some_and(|program| program.told_end), expected.is_none());
    }
}

#[test]
fn a_program_does_not_wait_for_long_for_a_stream_that_takes_nothing() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, 1_000);
    for stream in [1, 3, 5] {
        client.get(&mut world, stream, "/cgi/a");
    }
    let say_much = |program: &mut crate::testing::Program| {
        program.say(b"A: b\n\n");
        (0..100).for_each(|_| program.say([b'x'; 16 << 10]));
    };
    client.hear(&mut world, 1, say_much);
    client.hear(&mut world, 3, say_much);
    let mut waited_ms = 0;
    while client.answers[&3].reset.is_none() {
        assert!(waited_ms < 5_000, "its program still waits");
        client.pass_ms(&mut world, 500);
        waited_ms += 500;
        // This one is read slowly, and not too slowly.
        client.grant(&mut world, 1, 500);
        client.hear(&mut world, 1, |_| {});
    }
    assert_eq!((client.answers[&3].reset, waited_ms), (Some(8), 5_000), "CANCEL");
    assert_eq!(client.programs[1].fate.finish(), Some(Err(BrokenOff)));
    assert!(client.programs[0].fate.finish().is_none() && client.programs[2].fate.finish().is_none());
}

/// Its window is open, and the client takes more urgent bytes first.
#[test]
fn a_program_that_waits_for_more_urgent_ones_is_not_held_by_its_client() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WIDE);
    client.grant(&mut world, 0, WIDE);
    client.room = 0;
    for (stream, urgency) in [(1, "u=1"), (3, "u=5")] {
        let fields = [("priority", urgency)];
        let request = H2Client::request(stream, "GET", "/cgi/a", &fields, flag::END_STREAM);
        client.send(&mut world, &request);
        client.hear(&mut world, stream, |program| {
            program.say(b"A: b\n\n");
            (0..100).for_each(|_| program.say([b'x'; 16 << 10]));
        });
    }
    for _ in 0..60 {
        client.make_room(&mut world, 2_000);
        client.pass_ms(&mut world, 1_000);
    }
    assert!(client.programs.iter().all(|program| program.fate.finish().is_none()));
}

/// A client that is gone, perhaps.
#[test]
fn programs_of_a_client_that_has_closed_its_side_have_ten_seconds() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.get(&mut world, 1, "/cgi/a");
    client.pass_ms(&mut world, 30_000);
    client.end(&mut world);
    client.pass_ms(&mut world, 9_999);
    assert!(client.programs[0].fate.finish().is_none());
    client.pass_ms(&mut world, 1);
    assert_eq!(client.answer(1).status(), "504");
    assert_eq!(client.programs[0].fate.finish(), Some(Err(BrokenOff)));
}

#[test]
fn a_100_response_is_sent_when_the_program_takes_the_body() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    let fields = [("expect", "100-continue"), ("content-length", "3")];
    client.send(&mut world, &H2Client::request(1, "POST", "/cgi/a", &fields, 0));
    assert_eq!(client.answers[&1].interim, ["100"]);
    client.send(&mut world, &H2Client::data(1, b"abc", flag::END_STREAM));
    client.hear(&mut world, 1, |program| {
        program.say(b"A: b\n\nyes");
        program.ended = true;
    });
    assert_eq!(client.answer(1).body, b"yes");
}

#[test]
fn the_response_of_an_nph_script_is_translated() {
    let own = b"HTTP/1.1 299 Own\r\nX-A: b\r\nDate: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nown";
    let answer = |pieces: &[&[u8]]| {
        let mut world = world_with_programs(UpstreamProtocol::Nph, 1 << 20);
        let mut client = H2Client::connect(&mut world, WINDOW);
        client.get(&mut world, 1, "/cgi/nph-a");
        for piece in pieces {
            client.hear(&mut world, 1, |program| program.say(*piece));
        }
        client.hear(&mut world, 1, |program| program.ended = true);
        let answer = client.answer(1);
        assert!(answer.field("connection").is_none() && answer.field("date") != Some("x"));
        (answer.status().to_owned(), answer.field("x-a").map(str::to_owned), answer.body.clone())
    };
    for cut in [own.len(), 3, 10, 20, own.len() - 1] {
        let (first, second) = own.split_at(cut);
        assert_eq!(answer(&[first, second]), ("299".into(), Some("b".into()), b"own".to_vec()), "{cut}");
    }
    assert_eq!(answer(&[b"HTTP/1.0 204 None\n\n"]).0, "204");
    for bad in
        [&b"Content-Type: a/b\n\nbody"[..], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
    {
        assert_eq!(answer(&[bad]).0, "502");
    }
}

#[test]
fn a_reset_or_a_closed_connection_ends_the_program() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.get(&mut world, 1, "/cgi/a");
    client.get(&mut world, 3, "/cgi/b");
    client.send(&mut world, &raw(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert_eq!(client.programs[0].fate.finish(), Some(Err(BrokenOff)));
    assert_eq!(client.programs[1].fate.finish(), None);
    client.with(&mut world, |connection, cx| connection.abort(cx));
    assert_eq!(client.programs[1].fate.finish(), Some(Err(BrokenOff)));
}

#[test]
fn a_slow_client_stops_its_program_alone() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, 1_000);
    client.get(&mut world, 1, "/cgi/a");
    client.get(&mut world, 3, "/cgi/b");
    for _ in 0..100 {
        client.hear(&mut world, 1, |program| program.say([&b"A: b\n\n"[..], &[b'x'; 10_000]].concat()));
    }
    assert!(client.programs[0].says.len() > 80, "the buffer has a limit");
    client.hear(&mut world, 3, |program| {
        program.say(b"A: b\n\nshort");
        program.ended = true;
    });
    assert_eq!(client.answer(3).body, b"short");
    assert_eq!(client.answers[&1].body.len(), 1_000);
    client.send(&mut world, &[H2Client::window(1, WIDE), H2Client::window(0, WIDE)].concat());
    client.hear(&mut world, 1, |program| program.ended = true);
    assert_eq!(client.answer(1).body.len(), 100 * 10_006 - 6);
}

#[test]
fn failures_of_programs_are_answered_or_reset() {
    let mut world = world_with_programs(UpstreamProtocol::Cgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    client.get(&mut world, 1, "/cgi/a");
    client.hear(&mut world, 1, |program| program.ended = true);
    assert_eq!(client.answer(1).status(), "502");
    client.get(&mut world, 3, "/cgi/a");
    client.hear(&mut world, 3, |program| {
        program.say(b"Content-Length: 100\n\nshort");
        program.ended = true;
    });
    assert_eq!(client.answers[&3].reset, Some(2), "INTERNAL_ERROR");
    client.get(&mut world, 5, "/cgi/a");
    client.pass_ms(&mut world, 60_001);
    assert_eq!(client.answer(5).status(), "504");
    client.get(&mut world, 7, "/cgi/a");
    client.hear(&mut world, 7, |program| {
        program.say(b"Location: /small.txt\n\n");
        program.ended = true;
    });
    assert_eq!(client.answer(7).body, text(100), "a local redirection");
    let head = H2Client::request(9, "HEAD", "/cgi/a", &[], flag::END_STREAM);
    client.send(&mut world, &head);
    client.hear(&mut world, 9, |program| program.say(b"Content-Length: 7\n\nof no use"));
    assert_eq!((client.answer(9).field("content-length"), client.answer(9).body.len()), (Some("7"), 0));
    let statuses: Vec<u16> = world.tally.records.iter().map(|record| record.status).collect();
    assert_eq!(statuses, [502, 200, 504, 200, 200]);
}

#[test]
fn an_answer_that_is_shorter_than_promised_is_a_bad_gateway_until_something_is_sent() {
    let mut world = world_with_programs(UpstreamProtocol::FastCgi, 1 << 20);
    let mut client = H2Client::connect(&mut world, WINDOW);
    let short = [record(6, b"Content-Length: 100\n\nshort"), end_record()].concat();
    // The first block of a connection empties the client's table, and stays.
    client.get(&mut world, 1, "/small.txt");
    for (stream, path) in [(3, "/app/a"), (5, "/app/b")] {
        client.get(&mut world, stream, path);
        client.hear(&mut world, stream, |program| program.say(&short));
        assert_eq!(
            (client.answer(stream).status(), client.answers[&stream].reset),
            ("502", None),
            "{stream}"
        );
    }
    assert_eq!((world.tally.responses, world.tally.upstream_errors.len()), (3, 2));
    assert_eq!(
        world.tally.counts.get(Count::Begun),
        world.tally.counts.get(Count::Abandoned) + world.tally.ended.len() as u64
    );
    client.get(&mut world, 7, "/small.txt");
    assert_eq!(client.answer(7).body, text(100), "the connection goes on");
}

/// A program of FastCGI has written its whole response, and closes its connection, goes on in silence, or writes nonsense.
#[test]
fn a_response_that_is_complete_is_sent_whatever_its_program_does_then() {
    for (window, ends) in
        [(1_000, "closes"), (WIDE, "closes"), (WIDE, "is silent"), (1_000, "writes nonsense")]
    {
        let mut world = world_with_programs(UpstreamProtocol::FastCgi, 1 << 20);
        let mut client = H2Client::connect(&mut world, window);
        client.get(&mut world, 1, "/app/a");
        let answer = [&b"Content-Length: 40000\n\n"[..], text(40_000)].concat();
        client.hear(&mut world, 1, |program| {
            program.say(record(6, &answer));
            match ends {
                "closes" => program.ended = true,
                "writes nonsense" => program.say(b"nonsense"),
                _ => {}
            }
        });
        if ends == "is silent" {
            client.pass_ms(&mut world, 60_001);
        }
        client.grant(&mut world, 1, 100_000);
        assert!(client.answer(1).body == text(40_000), "{ends}");
        assert!(client.connection().is_idle());
        assert!(client.programs[0].stream.is_none(), "{ends}: it is released");
        assert_eq!(world.tally.upstream_errors.len(), 1, "{ends}");
        let [record] = &world.tally.records[..] else { panic!("one record") };
        assert!(!record.cut && record.body_bytes == 40_000, "{ends}");
    }
}
