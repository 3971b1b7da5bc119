//! Bodies of requests that pass to an HTTP server as they come.

use super::programs::{fate, manner, routes, world_of_programs};
use super::*;
use crate::site::places::{PlaceNames, Places};
use crate::site::proxy_rules::ProxyRules;
use crate::site::routes::{Route, RouteMatch, Routes};
use crate::site::{Site, SiteSettings};
use crate::testing::{BrokenOff, H2Client, Manner};
use crate::upstream::{ReleaseMode, UpstreamProtocol};

const CHUNKED: &str = "POST /proxy/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const TOO_LARGE: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
/// What may wait on its way to a server.
const BYTES_MAX: usize = 64 << 10;

fn known(bytes: usize) -> String {
    format!("POST /proxy/a HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")
}

/// A world whose servers are sent bodies as they come.
fn world_of_streams() -> World {
    world_with(ProxyRules { streams_requests: true, ..ProxyRules::default() })
}

fn world_with(rules: ProxyRules) -> World {
    let mut world = world_of_programs();
    let route = Route {
        matches: RouteMatch::Prefix(b"/proxy".as_slice().into()),
        protocol: UpstreamProtocol::Http,
        direct: false,
        number: 3,
        proxy: Some(rules.into()),
    };
    let answers = Arc::clone(&routes().answers);
    world.site().routes = Some(Routes::new(vec![route], b"Flash", b"/srv", answers).into());
    world
}

/// A client whose request has reached its server, which takes `room` bytes at a time.
fn uploading(world: &mut World, request: &[u8], room: usize) -> Client {
    let mut client = world.connect();
    let waits = world.receive(&mut client, request);
    assert!(matches!(waits, Waits::ForProgram(_)), "{waits:?}");
    world.begin(&mut client, Manner { room, ..manner(UpstreamProtocol::Http) });
    client
}

/// What the server has been told, behind the head.
fn told(client: &Client) -> String {
    let all = String::from_utf8(client.program.as_ref().expect("it runs").told.clone()).expect("text");
    all.split_once("\r\n\r\n").expect("there is a head").1.into()
}

fn head(client: &Client) -> String {
    let all = String::from_utf8(client.program.as_ref().expect("it runs").told.clone()).expect("text");
    all.split_once("\r\n\r\n").expect("there is a head").0.to_owned() + "\r\n"
}

#[test]
fn each_piece_is_passed_on_at_once() {
    let mut world = world_of_streams();
    let mut client = uploading(&mut world, CHUNKED.as_bytes(), 1 << 20);
    assert!(head(&client).contains("\r\nTransfer-Encoding: chunked\r\n"), "{}", head(&client));
    world.receive(&mut client, b"3\r\nabc\r\n2;x=y\r\nd");
    assert_eq!(told(&client), "3\r\nabc\r\n1\r\nd\r\n");
    world.receive(&mut client, b"e\r\n0\r\n\r\n");
    assert_eq!(told(&client), "3\r\nabc\r\n1\r\nd\r\n1\r\ne\r\n0\r\n\r\n");
    world.hear(&mut client, |program| program.say(OK));
    assert_eq!((statuses(&client.got), fate(&client)), (vec![200], Some(Ok(ReleaseMode::Reusable))));
    assert!(client.connection.is_idle());

    let mut client = uploading(&mut world, known(5).as_bytes(), 1 << 20);
    world.receive(&mut client, b"abc");
    assert!(head(&client).contains("\r\nContent-Length: 5\r\n") && told(&client) == "abc");
    world.receive(&mut client, &[b"de", get("/small.txt").as_bytes()].concat());
    assert_eq!(told(&client), "abcde", "the next request is not a part of it");
    world.hear(&mut client, |program| program.say(OK));
    assert_eq!((statuses(&client.got), fate(&client)), (vec![200, 200], Some(Ok(ReleaseMode::Reusable))));
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    let mut world = world_of_streams();
    let mut client = uploading(&mut world, known(1 << 20).as_bytes(), 1 << 10);
    let mut sent = 0;
    loop {
        let waits = world.receive(&mut client, &[b'x'; 4 << 10]);
        sent += 4 << 10;
        let Waits::ForProgram(interest) = waits else { panic!("{waits:?}") };
        if !interest.client_in {
            break;
        }
        assert!(sent < 4 * BYTES_MAX, "it goes on and on");
    }
    assert!(client.connection.to_upstream(client.program.as_ref().unwrap().exchange).len() <= BYTES_MAX);
    // As it reads, there is room for more.
    let reads = |world: &mut World, client: &mut Client| {
        client.program.as_mut().unwrap().room_left = 1 << 20;
        world.hear(client, |_| {})
    };
    let waits = reads(&mut world, &mut client);
    assert!(matches!(waits, Waits::ForProgram(interest) if interest.client_in), "{waits:?}");
    assert_eq!(told(&client).len(), sent);
}

#[test]
fn leave_to_send_is_the_servers() {
    let request = CHUNKED.replace("Host: a", "Host: a\r\nExpect: 100-continue");
    let mut world = world_of_streams();
    let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
    assert!(client.got.is_empty() && head(&client).contains("\r\nExpect: 100-continue\r\n"));
    world.hear(&mut client, |program| program.say("HTTP/1.1 100 Continue\r\n\r\n".repeat(2)));
    assert_eq!(client.got, b"HTTP/1.1 100 Continue\r\n\r\n");
    world.receive(&mut client, b"0\r\n\r\n");
    world.hear(&mut client, |program| program.say(OK));
    assert_eq!(statuses(&client.got), [100, 200]);
    // The server refuses: the client need not send anything.
    let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
    world.hear(&mut client, |program| program.say(TOO_LARGE));
    assert_eq!((statuses(&client.got), fate(&client)), (vec![413], Some(Ok(ReleaseMode::Ended))));
    // One that gives leave and breaks its response off in the same breath.
    let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
    world.hear(&mut client, |program| {
        program
            .say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size");
    });
    assert_eq!((client.got.starts_with(b"HTTP/1.1 200"), fate(&client)), (false, Some(Err(BrokenOff))));
}

#[test]
fn a_server_that_answers_early_is_not_used_again_and_the_rest_is_dropped() {
    for request in [CHUNKED.to_owned(), known(1 << 20)] {
        let mut world = world_of_streams();
        let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
        world.hear(&mut client, |program| program.say(TOO_LARGE));
        let answer = String::from_utf8(client.got.clone()).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 413 ") && answer.contains("\r\nConnection: close\r\n"),
            "{answer}"
        );
        assert_eq!(fate(&client), Some(Ok(ReleaseMode::Ended)));
        // What follows is a part of the body, whatever it looks like.
        world.receive(&mut client, get("/small.txt").as_bytes());
        assert_eq!(statuses(&client.got), [413]);
    }
}

#[test]
fn no_file_is_handed_on_before_the_body_has_ended() {
    let mut world = world_of_streams();
    world.jobs = Jobs::AtOnce;
    let names = PlaceNames::new([], [&b"/small.txt"[..]].map(Into::into), []);
    let settings = SiteSettings { internal: true, ..SiteSettings::default() };
    let place = Arc::new(Site { settings: settings.into(), ..Site::default() });
    let site = world.site();
    (site.places, site.hands_files_on) = (Some(Places::new(Arc::new(names), vec![place])), true);
    let mut client = uploading(&mut world, known(60).as_bytes(), 1 << 20);
    world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /small.txt\r\n\r\n"));
    assert!(client.got.is_empty());
    let rest = format!("{:60}{}", get("/large.txt"), get("/none"));
    world.receive(&mut client, &rest.as_bytes()[..30]);
    assert!(client.got.is_empty());
    world.receive(&mut client, &rest.as_bytes()[30..]);
    assert_eq!(statuses(&client.got), [200, 404], "the file, and the next request");
    // Or it never ends.
    let mut client = uploading(&mut world, known(60).as_bytes(), 1 << 20);
    world.hear(&mut client, |program| program.say("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /small.txt\r\n\r\n"));
    let left = world.left_ms(&client);
    world.pass_ms(&mut client, left);
    assert_eq!(statuses(&client.got), [408]);
}

#[test]
fn a_silent_client_holds_no_server_for_long() {
    let mut world = world_of_streams();
    world.server.settings.program_silence_ms = 600_000;
    let mut client = uploading(&mut world, known(100_000).as_bytes(), 1 << 20);
    world.receive(&mut client, b"a");
    let left = world.left_ms(&client);
    assert!(left <= 15_000, "{left} ms");
    world.pass_ms(&mut client, left);
    assert_eq!((statuses(&client.got), fate(&client)), (vec![408], Some(Err(BrokenOff))));
    // While the server does not read, it is not the client's time.
    let mut client = uploading(&mut world, known(100_000).as_bytes(), 1 << 10);
    world.receive(&mut client, &[b'x'; 50_000]);
    assert!(world.left_ms(&client) > 500_000);
    world.pass_ms(&mut client, 600_000);
    assert_eq!((statuses(&client.got), fate(&client)), (vec![504], Some(Err(BrokenOff))));
}

/// As with gRPC, where a client may have nothing to say for long.
#[test]
fn a_stream_in_both_directions_ends_when_neither_says_anything() {
    let mut world =
        world_with(ProxyRules { streams_requests: true, is_duplex: true, ..ProxyRules::default() });
    world.server.settings.program_silence_ms = 50_000;
    for has_begun in [false, true] {
        let mut client = uploading(&mut world, CHUNKED.as_bytes(), 1 << 20);
        if has_begun {
            world.hear(&mut client, |program| {
                program.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
            });
        }
        for _ in 0..3 {
            world.pass_ms(&mut client, 49_000);
            assert_eq!(fate(&client), None);
            world.receive(&mut client, b"1\r\na\r\n");
        }
        world.pass_ms(&mut client, 50_001);
        let statuses = if has_begun { None } else { Some(statuses(&client.got)) };
        assert!(statuses.is_none_or(|statuses| statuses == [408]), "nothing is taken back");
        assert_eq!(fate(&client), Some(Err(BrokenOff)));
    }
}

#[test]
fn a_client_that_leaves_ends_the_exchange_and_a_server_that_leaves_is_an_error() {
    let mut world = world_of_streams();
    let mut client = uploading(&mut world, CHUNKED.as_bytes(), 1 << 20);
    world.receive(&mut client, b"3\r\nabc\r\n");
    world.end(&mut client);
    assert_eq!((fate(&client), told(&client).ends_with("0\r\n\r\n")), (Some(Err(BrokenOff)), false));

    let mut client = uploading(&mut world, CHUNKED.as_bytes(), 1 << 20);
    world.hear(&mut client, |program| program.ended = true);
    assert_eq!(statuses(&client.got), [502]);

    // It reads no more, and then answers.
    let mut client = uploading(&mut world, known(1 << 20).as_bytes(), 1 << 20);
    client.program.as_mut().unwrap().deaf = true;
    world.receive(&mut client, &[b'x'; BYTES_MAX]);
    let waits = world.receive(&mut client, &[b'x'; BYTES_MAX]);
    let is_stopped = matches!(waits, Waits::ForProgram(interest) if !interest.client_in);
    assert!(is_stopped, "its answer is read before all of the body: {waits:?}");
    world.hear(&mut client, |program| program.say(TOO_LARGE));
    assert_eq!((statuses(&client.got), fate(&client)), (vec![413], Some(Ok(ReleaseMode::Ended))));
}

/// Those that would be obeyed as fields of the head stay behind.
#[test]
fn trailers_pass_in_both_directions() {
    let said = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nSet-Cookie: a=b\r\n\r\n";
    for (te, passes) in [("TE: trailers\r\n", true), ("", false)] {
        let mut world = world_of_streams();
        let request = CHUNKED.replace("Host: a\r\n", &format!("Host: a\r\nTrailer: X-End\r\n{te}"));
        let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
        let named = head(&client);
        assert!(
            named.contains("\r\nTrailer: X-End\r\n") && named.contains("\r\nTE: trailers\r\n") == passes,
            "{named}"
        );
        let trailers = "X-End: 1\r\nAuthorization: x\r\nX-Real-IP: y\r\nX_End: 2\r\nX-Forwarded-For: z\r\n";
        world.receive(&mut client, format!("1\r\na\r\n0\r\n{trailers}\r\n").as_bytes());
        assert_eq!(told(&client), "1\r\na\r\n0\r\nX-End: 1\r\n\r\n");
        // Wherever the pieces begin.
        said.as_bytes().chunks(7).for_each(|piece| _ = world.hear(&mut client, |program| program.say(piece)));
        let end = if passes { "2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n" } else { "2\r\nok\r\n0\r\n\r\n" };
        let got = String::from_utf8(client.got.clone()).unwrap();
        let got = got.replace("o\r\n1\r\nk", "ok").replace("1\r\nok", "2\r\nok");
        assert!(got.ends_with(end), "{got}");
        assert_eq!(fate(&client), Some(Ok(ReleaseMode::Reusable)));
    }
    let mut world = world_of_streams();
    world.manner = Some(manner(UpstreamProtocol::Http));
    let mut client = H2Client::connect(&mut world, 65_535);
    client.send(&mut world, &H2Client::request(1, "POST", "/proxy/a", &[("te", "trailers")], 0));
    client.send(&mut world, &H2Client::data(1, b"a", 0));
    client.send(&mut world, &H2Client::trailers(1, &[("x-end", "1"), ("cookie", "x")]));
    client.hear(&mut world, 1, |program| {
        assert!(program.told.ends_with(b"1\r\na\r\n0\r\nx-end: 1\r\n\r\n"));
        program.say(said);
    });
    let answer = client.answer(1);
    assert_eq!((answer.status(), &*answer.body, &*answer.trailers), ("200", &b"ok"[..], &*sum()));
}

/// Servers of gRPC tell of their errors in trailers.
#[test]
fn trailers_of_a_response_may_be_as_long_as_those_of_http2() {
    let mut world = world_of_streams();
    let request = CHUNKED.replace("Host: a\r\n", "Host: a\r\nTE: trailers\r\n");
    let mut client = uploading(&mut world, request.as_bytes(), 1 << 20);
    world.receive(&mut client, b"0\r\n\r\n");
    let trailers = format!("X-Sum: {}\r\n", "7".repeat(60_000));
    world.hear(&mut client, |program| {
        program.say(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{trailers}\r\n"))
    });
    let got = String::from_utf8(client.got.clone()).unwrap();
    assert!(got.ends_with(&format!("\r\n0\r\n{trailers}\r\n")), "{} bytes", got.len());
    assert_eq!(fate(&client), Some(Ok(ReleaseMode::Reusable)));
}

fn sum() -> Vec<(String, String)> {
    vec![("x-sum".into(), "7".into())]
}

/// As long as the client takes nothing, they wait behind the body.
#[test]
fn trailers_wait_for_the_bodys_last_byte() {
    let mut world = world_of_streams();
    world.manner = Some(manner(UpstreamProtocol::Http));
    let mut client = H2Client::connect(&mut world, 0);
    client.get(&mut world, 1, "/proxy/a");
    let body = "x".repeat(200_000);
    client.hear(&mut world, 1, |program| {
        program.say(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n{body}\r\n0\r\nX-Sum: 7\r\n\r\n"
        ));
    });
    client.send(&mut world, &[H2Client::window(0, 1 << 20), H2Client::window(1, 199_999)].concat());
    assert_eq!((client.answers[&1].body.len(), client.answers[&1].trailers.len()), (199_999, 0));
    client.send(&mut world, &H2Client::window(1, 1));
    let answer = client.answer(1);
    assert_eq!((answer.body.len(), &*answer.trailers), (200_000, &*sum()));
}

#[test]
fn a_stream_of_http2_passes_as_it_comes() {
    let mut world = world_of_streams();
    world.manner = Some(manner(UpstreamProtocol::Http));
    let mut client = H2Client::connect(&mut world, 65_535);
    client.send(&mut world, &H2Client::request(1, "POST", "/proxy/a", &[], 0));
    client.send(&mut world, &H2Client::data(1, b"abc", 0));
    client.hear(&mut world, 1, |program| {
        let told = String::from_utf8(program.told.clone()).unwrap();
        assert!(
            told.contains("\r\nTransfer-Encoding: chunked\r\n") && told.ends_with("\r\n\r\n3\r\nabc\r\n"),
            "{told}"
        );
    });
    // The response begins before the request ends.
    client.hear(&mut world, 1, |program| {
        program.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    });
    assert_eq!((client.answers[&1].status(), &*client.answers[&1].body), ("200", &b"ok"[..]));
    client.send(&mut world, &H2Client::data(1, b"d", flash_h2::frame::flag::END_STREAM));
    client.hear(&mut world, 1, |program| {
        assert!(program.told.ends_with(b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"));
        program.say("0\r\n\r\n");
    });
    assert!(client.answer(1).has_ended);
}

/// Some clients end their stream when they see that, and not with a reset.
#[test]
fn a_stream_that_is_answered_may_end_before_its_length() {
    for is_answered in [true, false] {
        let mut world = world_of_streams();
        world.manner = Some(manner(UpstreamProtocol::Http));
        let mut client = H2Client::connect(&mut world, 65_535);
        let fields = [("content-length", "100")];
        client.send(&mut world, &H2Client::request(1, "POST", "/proxy/a", &fields, 0));
        client.send(&mut world, &H2Client::data(1, b"abc", 0));
        if is_answered {
            client.hear(&mut world, 1, |program| program.say(TOO_LARGE));
        }
        client.send(&mut world, &H2Client::data(1, b"", flash_h2::frame::flag::END_STREAM));
        let answer = &client.answers[&1];
        assert_eq!(
            (answer.has_ended, answer.reset),
            if is_answered { (true, None) } else { (false, Some(1)) }
        );
    }
}
