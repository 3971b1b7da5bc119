//! Responses that are not a program's document: a local redirection, an error page, or output that bypasses the server.

use super::programs::{GET, manner, post, running, world_of_programs};
use super::*;
use crate::cache::memory_budget::Budget;
use crate::file::header::HeaderTemplate;
use crate::record::program_times::ProgramTimes;
use crate::site::routes::{Route, RouteMatch, Routes};
use crate::testing::Manner;
use crate::upstream::{Opened, UpstreamProtocol};

#[test]
fn a_local_redirect_is_answered_in_its_place() {
    let mut world = world_of_programs();
    let request = post(3) + "abc" + &get("/middle.txt");
    let mut client = running(&mut world, &request, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| {
        program.say("Location: /small.txt\n\n");
        program.ended = true;
    });
    let all = replies(&client.got, &[]);
    assert_eq!((&*all[0].body, &*all[1].body), (text(100), text(6_000)));
    let line = String::from_utf8_lossy(&world.tally.records[0].request_line).into_owned();
    assert_eq!(line, "GET /small.txt HTTP/1.1");
}

#[test]
fn a_record_has_the_time_of_its_program() {
    let mut world = world_of_programs();
    let mut client = world.connect();
    let pause = |world: &mut World, ms: u64| world.now.advance(world.now.us + ms * 1000);
    world.receive(&mut client, GET.as_bytes());
    pause(&mut world, 10);
    world.begin(&mut client, manner(UpstreamProtocol::Cgi));
    pause(&mut world, 300);
    world.hear(&mut client, |program| program.say("Content-Length: 4\n\nab"));
    pause(&mut world, 90);
    world.hear(&mut client, |program| program.say("cd"));
    pause(&mut world, 5_000);
    world.hear(&mut client, |program| program.ended = true);
    let [record] = &world.tally.records[..] else { panic!("one record: {:?}", world.tally.records) };
    let times = ProgramTimes { queue_us: 0, connect_us: 10_000, first_byte_us: 300_000, whole_us: 400_000 };
    assert_eq!((record.program, record.first_byte_us), (Some(times), 310_000));
    world.ask(get("/small.txt"));
    assert_eq!(world.tally.records.last().map(|record| record.program), Some(None), "a file has none");
}

/// A file's response has all of them.
#[test]
fn a_programs_own_field_takes_the_place_of_one_that_yields() {
    let mut world = world_of_programs();
    let template = HeaderTemplate {
        fields: b"X-Frame-Options: SAMEORIGIN\r\nX-Site: a\r\nReferrer-Policy: origin\r\n".to_vec(),
        yielding: [b"X-Frame-Options".as_slice(), b"Referrer-Policy"].map(Into::into).into(),
        ..HeaderTemplate::default()
    };
    world.site().template = template.into();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| {
        program.say("x-frame-options: DENY\nContent-Length: 0\n\n");
        program.ended = true;
    });
    let reply = reply(&client.got);
    let fields = ["X-Frame-Options", "X-Site", "Referrer-Policy"].map(|name| reply.field(name));
    assert_eq!(fields, [Some("DENY"), Some("a"), Some("origin")]);
    let head = String::from_utf8_lossy(&client.got).to_ascii_lowercase();
    assert_eq!(head.matches("x-frame-options").count(), 1, "{head}");
}

#[test]
fn redirects_without_end_have_one() {
    let mut world = world_of_programs();
    let answer = Some((b"Location: /cgi/again\n\n".to_vec(), 100));
    world.manner = Some(Manner { answer, ..manner(UpstreamProtocol::Cgi) });
    let client = world.exchange(GET.as_bytes(), &[], &[]);
    assert_eq!(reply(&client.got).status, 502);
    assert_eq!(world.tally.upstream_errors.len(), 1);
}

#[test]
fn a_client_redirect_gets_a_page() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Cgi);
    world.hear(&mut client, |program| {
        program.say("Location: http://b/\n\n");
        program.ended = true;
    });
    let reply = reply(&client.got);
    assert_eq!((reply.status, reply.field("Location")), (302, Some("http://b/")));
    assert!(client.connection.is_idle());
}

#[test]
fn an_nph_script_writes_its_own_head() {
    let mut world = world_of_programs();
    let mut client = running(&mut world, GET, UpstreamProtocol::Nph);
    let own = b"HTTP/1.1 418 Teapot\r\nX: y\r\n\r\nshort and stout";
    let waits = world.hear(&mut client, |program| {
        program.say(own);
        program.ended = true;
    });
    assert_eq!((waits, &*client.got), (Waits::Closed, &own[..]));
    assert_eq!(world.tally.records[0].status, 418);
}

#[test]
fn straight_to_the_client_where_nothing_else_is_to_be_said() {
    let mut world = world_of_programs();
    let list = vec![Route {
        matches: RouteMatch::Prefix(b"/cgi".as_slice().into()),
        protocol: UpstreamProtocol::Cgi,
        direct: true,
        number: 0,
        proxy: None,
    }];
    world.site().routes = Some(Routes::new(list, b"Flash", b"/srv", Budget::new(0)).into());
    let inet = Peer::Inet("192.0.2.7:5000".parse().unwrap());
    let mut client = world.connect();
    client.connection.h1_mut().set_peer(inet);
    world.receive(&mut client, GET.as_bytes());
    let (id, begin) = client.begin.take().expect("a program is wanted");
    let direct = begin.direct.expect("it is alone");
    assert!(direct.head.starts_with(b"HTTP/1.1 200 OK\r\nDate: "));
    assert!(direct.head.ends_with(b"\r\nConnection: close\r\n"), "the program ends it");
    world.with(&mut client, |connection, cx| connection.begun(id, Opened::Detached, cx));
    assert_eq!(world.turn(&mut client), Waits::Detached);
    assert!(client.got.is_empty() && world.tally.upstream_errors.is_empty());
    for (request, peer) in [
        (GET.replace("GET", "HEAD"), inet),
        (post(2) + "ab", inet),
        (GET.repeat(2), inet),
        (get("/small.txt") + &get("/cgi/a"), inet),
        (GET.to_owned(), Peer::Unix),
    ] {
        let mut client = world.connect();
        client.connection.h1_mut().set_peer(peer);
        if request.starts_with("GET /small") {
            client.socket = Socket::FULL;
        }
        world.receive(&mut client, request.as_bytes());
        let (_, begin) = client.begin.take().expect("a program is wanted");
        assert!(begin.direct.is_none(), "{request}");
        assert_eq!(world.tally.upstream_errors.len(), 1);
        world.tally.upstream_errors.clear();
    }
}
