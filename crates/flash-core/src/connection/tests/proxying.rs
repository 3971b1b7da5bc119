//! Exchanges with HTTP servers behind this one: where responses end, what can be used again, and tunnels.

use super::programs::{fate, manner, running, world_of_programs};
use super::*;
use crate::site::fallback::Fallback;
use crate::site::routes::{Route, RouteMatch, Routes};
use crate::testing::{BrokenOff, H2Client, Manner};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

const GET: &str = "GET /proxy/a?b HTTP/1.1\r\nHost: a\r\n\r\n";
const UPGRADE: &str = "GET /proxy/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n";

fn proxied(world: &mut World, request: &str) -> Client {
    running(world, request, UpstreamProtocol::Http)
}

const REUSABLE: Result<ReleaseMode, BrokenOff> = Ok(ReleaseMode::Reusable);
const ENDED: Result<ReleaseMode, BrokenOff> = Ok(ReleaseMode::Ended);
const BROKEN: Result<ReleaseMode, BrokenOff> = Err(BrokenOff);

type Said = (&'static str, bool, u16, &'static str, Result<ReleaseMode, BrokenOff>);

/// What a server says and whether it closes then; the status and the body that the client gets, and what becomes of the connection.
const RESPONSES: [Said; 16] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", REUSABLE),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
        false,
        200,
        "hello",
        REUSABLE,
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 200, "", REUSABLE),
    ("HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", REUSABLE),
    ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", ENDED),
    ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", ENDED),
    ("HTTP/1.1 200 OK\r\n\r\nhello", true, 200, "hello", ENDED),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        false,
        200,
        "hello",
        REUSABLE,
    ),
    // More than was promised is the beginning of nothing.
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", false, 200, "hello", ENDED),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nx",
        false,
        200,
        "hello",
        ENDED,
    ),
    ("HTTP/1.1 204 No Content\r\n\r\nhello", false, 204, "", ENDED),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        false,
        502,
        "",
        BROKEN,
    ),
    ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", false, 502, "", BROKEN),
    ("220 mail.example.org ESMTP\r\n", false, 502, "", BROKEN),
    ("HTTP/1.1 200 OK\r\nA b\r\n\r\n", false, 502, "", BROKEN),
    ("", true, 502, "", BROKEN),
];

/// How a response is read, in pieces of any size: the status and the body that the client gets, and what becomes of the connection.
#[test]
fn a_response_ends_where_it_says_and_its_connection_is_used_again_if_that_is_safe() {
    for (said, closes, status, body, how) in RESPONSES {
        for piece in [usize::MAX, 1, 7] {
            let mut world = world_of_programs();
            let mut client = proxied(&mut world, GET);
            // A response in one piece shows what stands behind it.
            let piece = piece.min(said.len().max(1));
            for bytes in said.as_bytes().chunks(piece) {
                world.hear(&mut client, |program| program.say(bytes));
            }
            if closes {
                world.hear(&mut client, |program| program.ended = true);
            }
            let reply = reply(&client.got);
            let body =
                if status == 502 { String::from_utf8_lossy(&reply.body).into_owned() } else { body.into() };
            assert_eq!(
                (reply.status, &*String::from_utf8_lossy(&reply.body)),
                (status, &*body),
                "{said:?} by {piece}"
            );
            let is_whole = piece >= said.len();
            if is_whole || how != ENDED {
                assert_eq!(fate(&client), Some(how), "{said:?} by {piece}");
            }
        }
    }
}

#[test]
fn a_response_to_head_has_no_body_and_says_its_length() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, &GET.replace("GET", "HEAD"));
    world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\n"));
    let got = String::from_utf8(client.got.clone()).unwrap();
    assert!(
        got.contains("Content-Length: 5\r\n") && got.contains("X-A: b\r\n") && got.ends_with("\r\n\r\n"),
        "{got}"
    );
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Reusable)));
}

#[test]
fn what_belongs_to_the_other_connection_stays_there() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, GET);
    let told = String::from_utf8(client.program.as_ref().unwrap().told.clone()).unwrap();
    assert!(
        told.starts_with("GET /proxy/a?b HTTP/1.1\r\nHost: a\r\n") && told.ends_with("\r\n\r\n"),
        "{told}"
    );
    world.hear(&mut client, |program| {
        program.say("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Own\r\nKeep-Alive: 5\r\nX-Own: 1\r\nX-Other: 2\r\nContent-Length: 0\r\n\r\n");
    });
    let reply = reply(&client.got);
    assert_eq!(["Keep-Alive", "X-Own", "X-Other"].map(|name| reply.field(name)), [None, None, Some("2")]);
}

#[test]
fn a_body_is_sent_with_its_length_and_a_server_that_has_not_read_it_is_not_used_again() {
    for (reads, how) in [(true, ReleaseMode::Reusable), (false, ReleaseMode::Ended)] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        let head = "POST /proxy/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        world.receive(&mut client, format!("{head}5\r\nhello\r\n0\r\n\r\n").as_bytes());
        world.begin(
            &mut client,
            Manner { room: if reads { 1 << 20 } else { 10 }, ..manner(UpstreamProtocol::Http) },
        );
        if reads {
            let told = String::from_utf8(client.program.as_ref().unwrap().told.clone()).unwrap();
            assert!(told.contains("Content-Length: 5\r\n") && told.ends_with("\r\n\r\nhello"), "{told}");
        }
        client.program.as_mut().unwrap().deaf = !reads;
        world.hear(&mut client, |program| program.say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((reply(&client.got).status, fate(&client)), (413, Some(Ok(how))));
    }
}

#[test]
fn a_safe_request_is_sent_again_if_its_connection_was_closed() {
    for (request, again) in [
        (GET.to_owned(), true),
        ("POST /proxy/a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab".into(), false),
    ] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        world.receive(&mut client, request.as_bytes());
        let used = || Manner { used: true, ..manner(UpstreamProtocol::Http) };
        world.begin(&mut client, used());
        let waits = world.hear(&mut client, |program| program.ended = true);
        assert_eq!(matches!(waits, Waits::ForProgram(_)), again, "{waits:?}");
        if again {
            world.begin(&mut client, used());
            assert!(client.program.as_ref().unwrap().begin.again);
            world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
            assert_eq!(&*reply(&client.got).body, b"ok");
        } else {
            assert_eq!(reply(&client.got).status, 502);
        }
    }
}

#[test]
fn interim_responses_have_an_end() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, GET);
    world.hear(&mut client, |program| program.say("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100)));
    assert_eq!(reply(&client.got).status, 502);
}

#[test]
fn a_websocket_is_a_tunnel_in_both_directions() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, UPGRADE);
    world.hear(&mut client, |program| program.say(format!("{SWITCHES}first")));
    let got = String::from_utf8(client.got.clone()).unwrap();
    assert!(
        got.starts_with("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
        "{got}"
    );
    assert!(got.contains("Sec-WebSocket-Accept: y\r\n") && got.ends_with("\r\n\r\nfirst"), "{got}");
    let head = client.program.as_ref().unwrap().told.len();
    // Nothing that goes through it is a request.
    world.receive(&mut client, get("/small.txt").as_bytes());
    assert_eq!(&client.program.as_ref().unwrap().told[head..], get("/small.txt").as_bytes());
    world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\n\r\n"));
    assert!(client.got.ends_with(b"firstHTTP/1.1 200 OK\r\n\r\n"));
    let waits = world.hear(&mut client, |program| program.ended = true);
    assert_eq!(waits, Waits::Closed);
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
    assert_eq!(world.tally.records.last().map(|record| record.status), Some(101));
}

#[test]
fn the_end_of_either_side_goes_through_a_tunnel_and_silence_ends_it() {
    let mut world = world_of_programs();
    world.server.settings.tunnel_idle_ms = 600_000;
    let mut client = proxied(&mut world, UPGRADE);
    world.hear(&mut client, |program| program.say(SWITCHES));
    world.pass_ms(&mut client, 300_000);
    world.receive(&mut client, b"ping");
    world.pass_ms(&mut client, 599_000);
    assert!(fate(&client).is_none(), "each byte counts");
    world.end(&mut client);
    assert!(client.program.as_ref().unwrap().told_end, "the server sees the end");
    world.hear(&mut client, |program| program.say("last"));
    assert!(client.got.ends_with(b"last"));

    let mut client = proxied(&mut world, UPGRADE);
    world.hear(&mut client, |program| program.say(SWITCHES));
    world.pass_ms(&mut client, 601_000);
    assert_eq!(fate(&client), Some(Err(BrokenOff)));
}

#[test]
fn a_websocket_that_the_server_refuses_is_a_response_like_others() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, UPGRADE);
    world.hear(&mut client, |program| program.say("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"));
    assert_eq!((reply(&client.got).status, fate(&client)), (403, Some(Ok(ReleaseMode::Reusable))));
    assert!(client.connection.is_idle());
}

#[test]
fn what_no_file_answers_may_be_the_servers() {
    let mut world = world();
    world.jobs = Jobs::AtOnce;
    let (matches, protocol) = (RouteMatch::Rest, UpstreamProtocol::Http);
    let route = Route { matches, protocol, direct: false, number: 7, proxy: Some(Arc::default()) };
    let routes = Routes::new(vec![route], b"Flash", b"/srv", crate::cache::memory_budget::Budget::new(0));
    world.site().routes = Some(routes.into());
    world.rules().fallback = Some(Fallback::of_route());
    let mut client = world.connect();
    world.receive(&mut client, get("/small.txt").as_bytes());
    assert_eq!(statuses(&client.got), [200]);
    for request in [get("/none?x"), "DELETE /none?x HTTP/1.1\r\nHost: a\r\n\r\n".into()] {
        let mut client = world.connect();
        world.receive(&mut client, request.as_bytes());
        world.begin(&mut client, manner(UpstreamProtocol::Http));
        let program = client.program.as_ref().unwrap();
        let told = String::from_utf8(program.told.clone()).unwrap();
        assert!(program.begin.route == 7 && told.contains(" /none?x HTTP/1.1\r\n"), "{told}");
        world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp"));
        assert_eq!(&*reply(&client.got).body, b"app");
    }
}

#[test]
fn streams_of_http_2_are_requests_of_http_1() {
    let mut world = world_of_programs();
    world.manner = Some(manner(UpstreamProtocol::Http));
    let mut client = H2Client::connect(&mut world, 1 << 20);
    client.get(&mut world, 1, "/proxy/a");
    let told = String::from_utf8(client.programs[0].told.clone()).unwrap();
    assert!(
        told.starts_with("GET /proxy/a HTTP/1.1\r\nHost: a\r\n") && told.contains("\r\nVia: 2 flash\r\n"),
        "{told}"
    );
    client.hear(&mut world, 1, |program| {
        program.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    });
    assert_eq!(&*client.answer(1).body, b"hello");
}

/// Its length is known once it is whole, and no head has it.
#[test]
fn a_body_of_a_stream_is_sent_with_its_length() {
    let mut world = world_of_programs();
    world.manner = Some(manner(UpstreamProtocol::Http));
    let mut client = H2Client::connect(&mut world, 1 << 20);
    client.send(&mut world, &H2Client::request(1, "PUT", "/proxy/a", &[], 0));
    let hidden = b"GET /proxy/hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(&mut world, &H2Client::data(1, hidden, flash_h2::frame::flag::END_STREAM));
    let told = String::from_utf8(client.programs[0].told.clone()).unwrap();
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("\r\nContent-Length: {}", hidden.len())), "{told}");
    assert_eq!(body.as_bytes(), hidden);
}

#[test]
fn an_interim_response_does_not_say_that_the_connection_stays() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, GET);
    world.hear(&mut client, |program| program.say("HTTP/1.1 103 Early Hints\r\n\r\n"));
    world.hear(&mut client, |program| {
        program.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    });
    assert_eq!((reply(&client.got).status, fate(&client)), (200, Some(ENDED)));
}

#[test]
fn what_a_client_sends_ahead_goes_through_the_tunnel_at_once() {
    let mut world = world_of_programs();
    let mut client = proxied(&mut world, &format!("{UPGRADE}early"));
    world.hear(&mut client, |program| program.say(SWITCHES));
    assert!(client.program.as_ref().unwrap().told.ends_with(b"\r\n\r\nearly"));

    let mut client = proxied(&mut world, UPGRADE);
    world.end(&mut client);
    world.hear(&mut client, |program| program.say(SWITCHES));
    assert!(client.program.as_ref().unwrap().told_end, "and so does its end");
}

#[test]
fn a_tunnel_holds_no_more_than_has_room_in_it() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    world.receive(&mut client, UPGRADE.as_bytes());
    world.begin(&mut client, Manner { room: 1000, ..manner(UpstreamProtocol::Http) });
    world.hear(&mut client, |program| program.say(SWITCHES));
    for _ in 0..1000 {
        world.receive(&mut client, &[b'x'; 1000]);
    }
    let id = client.program.as_ref().unwrap().exchange;
    let exchange = client.connection.h1_mut().exchange(id).unwrap();
    let held = exchange.upstream().unwrap().outgoing_capacity();
    assert!(held < 512 << 10, "{held} bytes");
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_refused() {
    for path in ["/proxy/..;/admin", "/proxy/x\\..\\admin"] {
        let mut world = world_of_programs();
        let mut client = world.connect();
        world.receive(&mut client, get(path).as_bytes());
        assert_eq!(reply(&client.got).status, 400, "{path}");
    }
}
