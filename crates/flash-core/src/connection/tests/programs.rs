//! Exchanges with programs: the request that a program gets, its response, and backpressure in both directions.

use std::sync::Arc;

use super::*;
use crate::cache::memory_budget::Budget;
use crate::record::counters::Count;
use crate::site::routes::{Route, RouteMatch, Routes};
use crate::testing::{BrokenOff, Manner, Program, STDERR, STDOUT, body_of, end_record, record};
use crate::upstream::{OpenError, ReleaseMode, UpstreamProtocol};

pub(super) const GET: &str = "GET /cgi/a?b=c HTTP/1.1\r\nHost: a\r\n\r\n";
pub(super) const ANSWER: &[u8] = b"Content-Type: text/plain\n\nhello";

pub(super) fn routes() -> Routes {
    let route = |place, protocol, number| Route {
        matches: place,
        protocol,
        direct: false,
        number,
        proxy: (protocol == UpstreamProtocol::Http).then(Arc::default),
    };
    let list = vec![
        route(RouteMatch::Prefix(b"/cgi".as_slice().into()), UpstreamProtocol::Cgi, 0),
        route(RouteMatch::Prefix(b"/app".as_slice().into()), UpstreamProtocol::FastCgi, 1),
        route(RouteMatch::Suffix(b".php".as_slice().into()), UpstreamProtocol::FastCgi, 2),
        route(RouteMatch::Prefix(b"/proxy".as_slice().into()), UpstreamProtocol::Http, 3),
    ];
    Routes::new(list, b"Flash", b"/srv", Budget::new(0))
}

pub(super) fn world_of_programs() -> World {
    let mut world = world();
    world.site().routes = Some(routes().into());
    world.disk.put_script("/a.php");
    world
}

pub(super) fn manner(protocol: UpstreamProtocol) -> Manner {
    Manner { protocol, used: false, room: 1 << 20, answer: None }
}

/// A client whose program has started.
pub(super) fn running(world: &mut World, request: &str, protocol: UpstreamProtocol) -> Client {
    let mut client = world.connect();
    let waits = world.receive(&mut client, request.as_bytes());
    assert!(matches!(waits, Waits::ForProgram(_)), "{waits:?}");
    world.begin(&mut client, manner(protocol));
    client
}

pub(super) fn fate(client: &Client) -> Option<Result<ReleaseMode, BrokenOff>> {
    client.program.as_ref().expect("there was one").fate.finish()
}

pub(super) fn post(length: usize) -> String {
    format!("POST /cgi/a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn a_cgi_program_answers_in_chunks_and_the_connection_goes_on() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, &(GET.to_owned() + &get("/small.txt")), UpstreamProtocol::Cgi);
    {
        let program = client.program.as_ref().unwrap();
        assert!(program.told.is_empty() && program.told_end);
        let variables = &program.begin.variables;
        assert_eq!(variables.get(b"QUERY_STRING"), Some(&b"b=c"[..]));
        assert_eq!(variables.get(b"SCRIPT_NAME"), None, "whoever begins it looks for it");
        assert_eq!((program.begin.route, program.begin.path.as_bytes()), (0, &b"/cgi/a"[..]));
    }
    world.hear(&mut client, |program| program.say(&ANSWER[..10]));
    assert!(client.got.is_empty());
    world.hear(&mut client, |program| program.say(&ANSWER[10..]));
    world.hear(&mut client, |program| program.ended = true);
    let all = replies(&client.got, &[]);
    assert_eq!((all[0].status, &*all[0].body), (200, &b"hello"[..]));
    assert_eq!(all[0].field("Content-Type"), Some("text/plain"));
    assert_eq!(&*all[1].body, text(100));
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
    let record = &world.tally.records[0];
    assert_eq!((record.status, record.body_bytes), (200, 15), "with the chunks around them");
}

#[test]
fn a_fastcgi_program_is_kept() {
    let mut world = world_of_programs();
    let mut client =
        running(&mut world, "GET /a.php?x HTTP/1.1\r\nHost: a\r\n\r\n", UpstreamProtocol::FastCgi);
    assert!(client.program.as_ref().unwrap().fate.has_begun());
    let told = &client.program.as_ref().unwrap().told;
    assert_eq!(body_of(told), Some(Vec::new()), "the empty body is told at once");
    let filename = memchr::memmem::find(told, b"SCRIPT_FILENAME/srv/a.php");
    assert!(filename.is_some());
    world.hear(&mut client, |program| {
        program.say([record(STDERR, b"oh"), record(STDOUT, ANSWER), end_record()].concat());
    });
    let reply = reply(&client.got);
    assert_eq!(&*reply.body, b"hello");
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Reusable)));
    assert_eq!(client.program.as_ref().unwrap().fate.stderr(), b"oh");
    assert!(client.connection.is_idle());
}

#[test]
fn an_http_1_0_client_gets_a_body_that_ends_with_the_connection() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, "GET /cgi/a HTTP/1.0\r\n\r\n", UpstreamProtocol::Cgi);
    let waits = world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!(waits, Waits::Closed);
    let reply = reply(&client.got);
    assert_eq!((&*reply.body, reply.field("Connection")), (&b"hello"[..], Some("close")));
    assert_eq!(world.tally.records.len(), 1);
}

#[test]
fn a_length_ends_the_answer() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| program.say("Content-Type: a/b\nContent-Length: 3\n\nabcdef"));
    assert_eq!(&*reply(&client.got).body, b"abc");
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)), "it may end in its own time");
    assert!(client.connection.is_idle());
}

#[test]
fn head_gets_no_body() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        let mut world = world_of_programs();
        let mut client = running(&mut world, &GET.replace("GET", "HEAD"), protocol);
        world.hear(&mut client, |program| match protocol {
            UpstreamProtocol::FastCgi => program.say([record(STDOUT, ANSWER), end_record()].concat()),
            _ => {
                program.say(ANSWER);
                program.ended = true;
            }
        });
        let all = replies(&client.got, &[0]);
        assert_eq!((all.len(), all[0].field("Transfer-Encoding")), (1, None));
        assert!(client.connection.is_idle());
    }
}

#[test]
fn bodies_are_handed_on_with_and_without_chunks() {
    let chunked = "POST /cgi/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    for request in [post(5) + "abcde", chunked.to_owned()] {
        for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
            let mut world = world_of_programs();
            let client = running(&mut world, &request, protocol);
            let program = client.program.as_ref().unwrap();
            match protocol {
                UpstreamProtocol::FastCgi => assert_eq!(body_of(&program.told), Some(b"abcde".to_vec())),
                _ => assert_eq!((&*program.told, program.told_end), (&b"abcde"[..], true)),
            }
        }
    }
}

#[test]
fn a_program_gets_its_body_as_fast_as_it_reads() {
    let mut world = world_of_programs();
    world.routes().answers = Budget::new(64 << 20);
    world.manner = Some(Manner { room: 0, ..manner(UpstreamProtocol::Cgi) });
    let mut client = world.connect();
    world.receive(&mut client, post(200_000).as_bytes());
    (0..3).for_each(|_| _ = world.receive(&mut client, &[b'x'; 60_000]));
    assert!(client.program.is_none(), "its body is not whole");
    let waits = world.receive(&mut client, &[b'x'; 20_000]);
    assert!(matches!(waits, Waits::ForProgram(Interest { upstream_out: true, .. })), "{waits:?}");
    assert_eq!(client.connection.to_upstream(client.program.as_ref().unwrap().exchange).len(), 64 << 10);
    let waits = world.hear(&mut client, |program| program.room_left = 200_000);
    assert!(matches!(waits, Waits::ForProgram(Interest { upstream_out: false, .. })), "{waits:?}");
    let program = client.program.as_ref().unwrap();
    assert!(program.told.len() == 200_000 && program.told_end);
}

#[test]
fn a_client_that_does_not_read_stops_its_program() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    client.socket = Socket::FULL;
    let waits = world.hear(&mut client, |program| {
        program.say(ANSWER);
        (0..100).for_each(|_| program.say([b'x'; 16 << 10]));
    });
    assert!(matches!(waits, Waits::ForProgram(Interest { client_out: true, .. })));
    let left = client.program.as_ref().unwrap().says.len();
    assert!(left >= 90, "{left} pieces were left where they are");
}

#[test]
fn a_client_that_is_behind_does_not_hold_up_its_program_while_there_is_room() {
    for (protocol, request) in
        [(UpstreamProtocol::Cgi, GET), (UpstreamProtocol::FastCgi, "GET /app HTTP/1.1\r\nHost: a\r\n\r\n")]
    {
        let mut world = world_of_programs();
        // One answer may have a 64th of it, beyond its first 64 KiB.
        let answers = Budget::new(64 * (512 << 10));
        world.routes().answers = Arc::clone(&answers);
        let mut client = running(&mut world, request, protocol);
        client.socket = Socket::FULL;
        let say = |program: &mut Program, bytes: &[u8]| match protocol {
            UpstreamProtocol::FastCgi => program.say(record(STDOUT, bytes)),
            UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.say(bytes),
        };
        let say_much = |program: &mut Program| (0..30).for_each(|_| say(program, &[b'~'; 16 << 10]));
        world.hear(&mut client, |program| {
            say(program, ANSWER);
            say_much(program);
        });
        assert!(client.program.as_ref().unwrap().says.is_empty(), "{protocol:?}: all of it was taken");
        assert!(answers.left_bytes() < answers.bytes_max());
        world.hear(&mut client, say_much);
        let left = client.program.as_ref().unwrap().says.len();
        assert!((20..30).contains(&left), "{protocol:?}: {left} pieces of what is too much are left");
        for _ in 0..150 {
            client.connection.client_ready();
            world.make_room(&mut client, 10_000);
        }
        world.hear(&mut client, |program| match protocol {
            UpstreamProtocol::FastCgi => program.say(end_record()),
            UpstreamProtocol::Cgi | UpstreamProtocol::Nph | UpstreamProtocol::Http => program.ended = true,
        });
        assert!(client.connection.is_idle(), "{protocol:?}");
        assert_eq!(client.got.iter().filter(|byte| **byte == b'~').count(), 60 * (16 << 10));
        assert_eq!(answers.left_bytes(), answers.bytes_max(), "{protocol:?}: all room was given back");
    }
}

#[test]
fn leave_to_send_is_given_before_the_program_begins() {
    let request = "POST /cgi/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, request.as_bytes());
    assert!(client.got == b"HTTP/1.1 100 Continue\r\n\r\n" && client.begin.is_none());
    world.receive(&mut client, b"abc");
    world.begin(&mut client, manner(UpstreamProtocol::Cgi));
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!(statuses(&client.got), [100, 200]);
    let mut refused = world.connect();
    world.receive(&mut refused, (post(3) + "abc").as_bytes());
    world.refuse(&mut refused, OpenError::Busy);
    let reply = reply(&refused.got);
    assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("1")));
    assert!(refused.connection.is_idle(), "the request was read to its end");
}

#[test]
fn what_does_not_begin_is_answered() {
    for (refusal, status) in [
        (OpenError::NotFound, 404),
        (OpenError::Forbidden, 403),
        (OpenError::Broken, 502),
        (OpenError::Late, 504),
        (OpenError::Busy, 503),
    ] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        world.receive(&mut client, (GET.to_owned() + &get("/small.txt")).as_bytes());
        world.refuse(&mut client, refusal);
        assert_eq!(statuses(&client.got), [status, 200]);
        assert!(world.tally.upstream_errors.is_empty(), "whoever refused has said why");
    }
}

#[test]
fn a_broken_answer_is_a_bad_gateway() {
    let long = "a: b\n".repeat(30_000);
    for answer in ["", "Content-Type", "nonsense\n\n", "Content-Type: a\0b\n\n", &long] {
        let mut world = world_of_programs();
        let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
        world.hear(&mut client, |program| {
            program.say(answer);
            program.ended = true;
        });
        assert_eq!(reply(&client.got).status, 502, "{:.20}", answer);
        assert_eq!(fate(&client), Some(Err(BrokenOff)));
        let [complaint] = &*world.tally.upstream_errors else { panic!("one reason") };
        assert_eq!(&*complaint.request, "GET /cgi/a?b=c HTTP/1.1");
    }
}

#[test]
fn the_head_of_an_answer_has_a_size_that_can_be_set() {
    let cookies: String = (0..130).map(|n| format!("Set-Cookie: c{n}={}\n", "x".repeat(260))).collect();
    for (bytes, status) in [(32 << 10, 502), (64 << 10, 200)] {
        let program_head = flash_cgi::response::Limits::of_bytes(bytes);
        let mut world = world_with(Settings { program_head, ..Settings::default() });
        world.site().routes = Some(routes().into());
        let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
        world.hear(&mut client, |program| {
            program.say(format!("Content-Type: a/b\n{cookies}\nhello"));
            program.ended = true;
        });
        assert_eq!(reply(&client.got).status, status, "{bytes}");
    }
}

const SHORT: &[u8] = b"Content-Type: a/b\nContent-Length: 30\n\nabc";

#[test]
fn a_program_that_dies_half_way_ends_the_connection() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    let waits = world.hear(&mut client, |program| {
        program.say(SHORT);
        program.ended = true;
    });
    assert_eq!(waits, Waits::Closed);
    let mut client = running(&mut world, GET, UpstreamProtocol::FastCgi);
    let waits = world.hear(&mut client, |program| {
        program.say(record(STDOUT, ANSWER));
        program.ended = true;
    });
    assert_eq!((waits, world.tally.upstream_errors.len()), (Waits::Closed, 2));
    assert!(!client.got.ends_with(b"0\r\n\r\n"), "nobody takes it for complete");
}

#[test]
fn an_answer_that_is_shorter_than_promised_is_a_bad_gateway_while_nothing_was_sent() {
    let mut world = world_of_programs();
    let request = GET.replace("/cgi/", "/app/") + &get("/small.txt");
    let mut client = running(&mut world, &request, UpstreamProtocol::FastCgi);
    world.hear(&mut client, |program| program.say([record(STDOUT, SHORT), end_record()].concat()));
    let statuses = |replies: Vec<Reply>| replies.iter().map(|reply| reply.status).collect::<Vec<_>>();
    assert_eq!(statuses(replies(&client.got, &[])), [502, 200]);
    let tally = &world.tally;
    assert_eq!((tally.upstream_errors.len(), tally.responses), (1, 2));
    assert_eq!(tally.counts.get(Count::Begun), tally.counts.get(Count::Abandoned) + tally.ended.len() as u64);
    assert_eq!(tally.records.iter().map(|record| record.status).collect::<Vec<_>>(), [502, 200]);
}

#[test]
fn silence_is_a_gateway_timeout_and_then_an_end() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    assert_eq!(world.left_ms(&client), 60_000);
    world.pass_ms(&mut client, 59_000);
    world.hear(&mut client, |program| program.say("Content"));
    assert_eq!(world.left_ms(&client), 60_000, "it has said something");
    world.pass_ms(&mut client, 60_000);
    assert_eq!(reply(&client.got).status, 504);
    assert_eq!(fate(&client), Some(Err(BrokenOff)));
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| program.say(ANSWER));
    assert_eq!(world.pass_ms(&mut client, 60_000), Waits::Closed);
    let mut unbegun = world.connect();
    world.receive(&mut unbegun, GET.as_bytes());
    world.pass_ms(&mut unbegun, 60_000);
    assert_eq!(reply(&unbegun.got).status, 504);
}

#[test]
fn a_body_that_comes_too_slowly_is_refused() {
    let mut world = world_of_programs();
    world.routes().answers = Budget::new(64 << 20);
    let mut client = world.connect();
    world.receive(&mut client, post(100_000).as_bytes());
    world.receive(&mut client, &[b'x'; 6_000]);
    world.pass_ms(&mut client, 10_000);
    assert!(client.got.is_empty(), "600 bytes in a second are enough");
    world.receive(&mut client, &[b'x'; 600]);
    world.pass_ms(&mut client, 6_000);
    assert!(client.got.is_empty(), "what came before is to its credit");
    world.pass_ms(&mut client, 2_000);
    assert_eq!(reply(&client.got).status, 408);
    assert!(client.begin.is_none() && client.program.is_none());
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, post((1 << 20) + 1).as_bytes());
    assert_eq!(reply(&client.got).status, 413);
}

#[test]
fn a_kept_connection_that_was_closed_is_tried_again_where_that_is_safe() {
    let mut world = world_of_programs();
    let used = Manner { used: true, ..manner(UpstreamProtocol::FastCgi) };
    let mut client = world.connect();
    world.receive(&mut client, GET.as_bytes());
    world.begin(&mut client, used.clone());
    world.hear(&mut client, |program| program.ended = true);
    assert!(client.begin.as_ref().is_some_and(|(_, begin)| begin.again));
    world.begin(&mut client, used.clone());
    world.hear(&mut client, |program| program.ended = true);
    assert_eq!(reply(&client.got).status, 502, "once is enough");
    let mut client = world.connect();
    world.receive(&mut client, (post(1) + "a").as_bytes());
    world.begin(&mut client, used);
    world.hear(&mut client, |program| program.ended = true);
    assert_eq!(reply(&client.got).status, 502);
}

#[test]
fn scripts_are_never_files() {
    let mut world = world_of_programs();
    for (request, status) in [
        ("POST /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", 405),
        ("POST /missing.php HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", 404),
        ("OPTIONS /missing.php HTTP/1.1\r\nHost: a\r\n\r\n", 204),
        ("GET /missing.php HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", 404),
    ] {
        assert_eq!(reply(&world.ask(request)).status, status, "{request}");
    }
    for path in ["/a.php", "/a%2ephp", "//a.php", "/x/../a.php"] {
        let mut client = world.connect();
        let waits = world.receive(&mut client, get(path).as_bytes());
        assert!(matches!(waits, Waits::ForProgram(_)), "{path}: {waits:?}");
        assert!(client.begin.is_some() && client.got.is_empty());
    }
}

#[test]
fn a_program_that_closes_its_ears_may_still_speak() {
    let mut world = world_of_programs();
    world.routes().answers = Budget::new(64 << 20);
    let mut client = world.connect();
    world.receive(&mut client, &[post(100_000).as_bytes(), &[b'x'; 60_000]].concat());
    world.receive(&mut client, &[b'x'; 40_000]);
    world.begin(&mut client, Manner { room: 0, ..manner(UpstreamProtocol::Cgi) });
    client.program.as_mut().unwrap().deaf = true;
    world.hear(&mut client, |program| {
        program.say(ANSWER);
        program.ended = true;
    });
    assert_eq!(&*reply(&client.got).body, b"hello");
    assert!(client.connection.is_idle(), "the rest of the body was dropped");
}

#[test]
fn what_a_program_leaves_unread_is_not_a_request() {
    for bytes in [50, 100_000] {
        let mut world = world_of_programs();
        world.routes().answers = Budget::new(64 << 20);
        let mut client = world.connect();
        world.receive(&mut client, (post(bytes) + &get("/missing").repeat(bytes)[..bytes]).as_bytes());
        world.begin(&mut client, Manner { room: 0, ..manner(UpstreamProtocol::Cgi) });
        world.hear(&mut client, |program| {
            program.say(ANSWER);
            program.ended = true;
        });
        assert_eq!(&*reply(&client.got).body, b"hello");
        world.receive(&mut client, get("/small.txt").as_bytes());
        assert_eq!(statuses(&client.got), [200, 200]);
    }
}

#[test]
fn an_exchange_leaves_no_buffers_behind() {
    for protocol in [UpstreamProtocol::Cgi, UpstreamProtocol::FastCgi] {
        let mut world = world_of_programs();
        let answer = Some((b"Content-Type: a/b\n\nhello".to_vec(), 7));
        world.manner = Some(Manner { answer, ..manner(protocol) });
        let client = world.exchange((post(5) + "abcde").as_bytes(), &[3], &[9]);
        assert!(client.connection.is_idle(), "{protocol:?} {:?}", client.connection);
        assert_eq!(client.connection.h1().input().capacity(), 0);
        assert!(!client.connection.h1().holds_output());
    }
}

#[test]
fn a_stream_that_has_not_carried_its_whole_request_is_not_kept() {
    for deaf in [false, true] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        world.receive(&mut client, (post(50) + &"x".repeat(50)).as_bytes());
        world.begin(&mut client, Manner { room: 0, ..manner(UpstreamProtocol::FastCgi) });
        client.program.as_mut().unwrap().deaf = deaf;
        world.hear(&mut client, |program| program.say([record(STDOUT, ANSWER), end_record()].concat()));
        assert_eq!(&*reply(&client.got).body, b"hello");
        assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
    }
}

#[test]
fn a_program_gets_methods_that_flash_does_not_know() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, b"PURGE /cgi/a HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, open) = client.begin.take().expect("a program is asked for");
    assert!(format!("{open:?}").contains("PURGE"), "{open:?}");
    for (path, status) in [("/small.txt", 501), ("/missing", 501), ("/a.php", 0)] {
        let request = format!("PURGE {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut client = world.connect();
        world.receive(&mut client, request.as_bytes());
        world.complete_all(&mut client);
        match status {
            0 => assert!(client.begin.is_some(), "{path}"),
            status => assert_eq!(reply(&client.got).status, status, "{path}"),
        }
    }
}
