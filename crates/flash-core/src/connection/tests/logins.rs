//! Log-ins: who is let in, what waits for a check, and what cannot be reached without one.

use std::sync::Mutex;

use flash_http::basic::Credentials;

use super::programs::{manner, routes};
use super::*;
use crate::clients::login::{Check, CheckKey, Known, Users};
use crate::job::Done;
use crate::site::access::AccessRules;
use crate::site::hosts::{HostName, Hosts};
use crate::site::places::{PlaceNames, Places};
use crate::site::{Site, SiteSettings};
use crate::testing::H2Client;
use crate::upstream::UpstreamProtocol;

/// Bob, whose password is a bee. It remembers whom it has found right.
#[derive(Debug, Default)]
struct OnlyBob {
    remembered: Arc<Mutex<bool>>,
}

#[derive(Debug)]
struct CheckOfBob(bool, Arc<Mutex<bool>>);

impl Users for OnlyBob {
    fn challenge(&self) -> &[u8] {
        b"Basic realm=\"bees\""
    }

    fn ask(&self, credentials: &Credentials, _: u64) -> Known {
        let is_right = credentials.user() == b"bob" && credentials.password() == b"bee";
        match is_right && *self.remembered.lock().unwrap() {
            true => Known::Right,
            false => Known::Unchecked(Box::new(CheckOfBob(is_right, Arc::clone(&self.remembered)))),
        }
    }
}

impl Check for CheckOfBob {
    fn key(&self) -> CheckKey {
        CheckKey::default()
    }

    fn run(&self, _: u64) -> bool {
        *self.1.lock().unwrap() |= self.0;
        self.0
    }
}

fn for_bob() -> AccessRules {
    AccessRules { users: Some(Arc::new(OnlyBob::default())), ..AccessRules::default() }
}

const RIGHT: &str = "Authorization: Basic Ym9iOmJlZQ==\r\n";
const WRONG: &str = "Authorization: Basic Ym9iOndhc3A=\r\n";

fn ask(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// A site that is for Bob alone.
fn world_of_bob() -> World {
    let mut world = world();
    world.rules().access = Some(for_bob());
    world
}

#[test]
fn nobody_learns_what_is_there_without_a_log_in() {
    let mut world = world_of_bob();
    world.rules().list = true;
    world.jobs = Jobs::Later;
    for method in ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "BREW"] {
        for path in ["/small.txt", "/none", "/folder/", "/closed", "/..", "/.git/config"] {
            for fields in ["", WRONG, "Authorization: Bearer abc\r\n", &(RIGHT.to_owned() + RIGHT)] {
                let head =
                    ask(method, path, &(fields.to_owned() + "Range: bytes=0-1\r\nIf-None-Match: *\r\n"));
                let mut client = world.connect();
                world.receive(&mut client, head.as_bytes());
                if client.check.is_some() {
                    world.check(&mut client);
                }
                assert!(client.pending.is_none(), "no file is looked for");
                let heads: &[usize] = if method == "HEAD" { &[0] } else { &[] };
                let reply = replies(&client.got, heads).remove(0);
                assert_eq!(reply.status, 401, "{method} {path} {fields}");
                assert_eq!(reply.field("WWW-Authenticate"), Some("Basic realm=\"bees\""));
                assert_eq!(reply.field("Cache-Control"), Some("no-store"));
            }
        }
    }
    world.jobs = Jobs::AtOnce;
    assert_eq!(statuses(&world.ask(ask("GET", "/small.txt", RIGHT))), [200]);
    assert_eq!(statuses(&world.ask(ask("OPTIONS", "*", RIGHT))), [204]);
    assert_eq!(statuses(&world.ask(ask("GET", "/none", RIGHT))), [404]);
}

#[test]
fn what_follows_waits_for_the_check_and_comes_in_order() {
    let mut world = world_of_bob();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    let all = ask("GET", "/small.txt", WRONG) + &ask("GET", "/middle.txt", RIGHT) + &ask("GET", "/none", "");
    assert_eq!(world.receive(&mut client, all.as_bytes()), Waits::ForJob);
    assert!(client.got.is_empty());
    world.check(&mut client);
    assert_eq!(statuses(&client.got), [401], "the second one is checked now");
    world.check(&mut client);
    assert!(client.pending.is_some(), "the look-up comes after the check");
    world.complete_all(&mut client);
    assert_eq!(statuses(&client.got), [401, 200, 401]);
    let users: Vec<&[u8]> = world.tally.records.iter().map(|record| &*record.user).collect();
    assert_eq!(users, [&b""[..], b"bob", b""], "a name that is not right is nobody's");
    // He is remembered, so only the file is waited for.
    let mut client = world.connect();
    world.receive(&mut client, ask("GET", "/large.bin", RIGHT).as_bytes());
    assert!(client.check.is_none() && client.pending.is_some());
    world.complete_all(&mut client);
    assert_eq!(statuses(&client.got), [200]);
}

#[test]
fn a_check_that_is_late_or_refused_is_a_503() {
    let mut world = world_of_bob();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    world.receive(&mut client, (ask("GET", "/small.txt", RIGHT) + &get("/none")).as_bytes());
    let left = world.left_ms(&client);
    world.pass_ms(&mut client, left);
    let late = reply(&client.got);
    assert_eq!((late.status, late.field("Retry-After")), (503, Some("1")));
    world.check(&mut client);
    assert_eq!(statuses(&client.got), [503], "what comes too late changes nothing");
    let mut client = world.connect();
    world.receive(&mut client, ask("GET", "/small.txt", WRONG).as_bytes());
    let (id, _) = client.check.take().unwrap();
    world.finish(&mut client, id, Done::Failed(Failure::Overloaded));
    assert_eq!(statuses(&client.got), [503]);
    world.receive(&mut client, ask("GET", "/small.txt", "").as_bytes());
    assert_eq!(statuses(&client.got), [503, 401], "the connection goes on");
}

#[test]
fn the_body_of_a_refused_request_is_not_waited_for() {
    let mut world = world_of_bob();
    let post = |fields: &str| ask("POST", "/small.txt", &format!("Content-Length: 3\r\n{fields}"));
    assert_eq!(statuses(&world.ask(post("") + "abc" + &get("/"))), [401]);
    assert_eq!(statuses(&world.ask(post(WRONG))), [401]);
    let expects = ask("PUT", "/a", "Content-Length: 3\r\nExpect: 100-continue\r\n");
    assert_eq!(statuses(&world.ask(expects)), [401], "the client is not told to go on");
    // A body of no use is dropped first, and does not hide who has sent it.
    let mut client = world.connect();
    let get_with_body = ask("GET", "/small.txt", &format!("Content-Length: 3\r\n{RIGHT}"));
    for piece in [&*get_with_body, "a", "bc", &ask("GET", "/small.txt", "")] {
        world.receive(&mut client, piece.as_bytes());
        world.complete_all(&mut client);
    }
    assert_eq!(statuses(&client.got), [200, 401]);
}

#[test]
fn no_password_is_asked_for_where_tls_is_required() {
    let mut world = world_of_bob();
    world.site().https_port = Some(443);
    assert_eq!(statuses(&world.ask(ask("GET", "/small.txt", RIGHT))), [308]);
    assert!(world.tally.records[0].user.is_empty(), "nobody has looked at the password");
}

#[test]
fn networks_and_log_ins_are_both_needed() {
    let mut world = world();
    let allowed = ["198.51.100.0/24".parse().unwrap()];
    let networks = crate::site::access::AccessNetworks::new(&allowed, &[]);
    world.rules().access = Some(AccessRules { networks, ..for_bob() });
    let mut from = |peer: &str, fields: &str| {
        let mut client = world.connect();
        client.connection.h1_mut().set_peer(Peer::Inet(peer.parse().unwrap()));
        world.receive(&mut client, ask("GET", "/small.txt", fields).as_bytes());
        world.complete_all(&mut client);
        statuses(&client.got)
    };
    assert_eq!(from("203.0.113.1:1", RIGHT), [403]);
    assert_eq!(from("198.51.100.1:1", ""), [401]);
    assert_eq!(from("198.51.100.1:1", RIGHT), [200]);
}

/// `/cgi/secret` is for Bob alone.
fn world_of_places() -> World {
    let mut world = world();
    let names = PlaceNames::new([], [&b"/cgi/secret"[..]].map(Into::into), []);
    let access_log = logged();
    let settings = SiteSettings { access: Some(for_bob()), access_log, ..SiteSettings::default() };
    let routes = Arc::new(routes());
    let place = Site { settings: settings.into(), routes: Some(Arc::clone(&routes)), ..Site::default() };
    let places = Some(Places::new(Arc::new(names), vec![Arc::new(place)]));
    let site = Site { places, routes: Some(routes), ..Site::default() };
    world.server.hosts = Hosts::new(vec![(site, vec![HostName::Any])]);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world
}

#[test]
fn a_program_learns_the_user_and_not_the_password() {
    let mut world = world_of_places();
    let mut client = world.connect();
    world.receive(&mut client, ask("GET", "/cgi/secret/a", "").as_bytes());
    world.receive(&mut client, ask("GET", "/cgi/secret/a", WRONG).as_bytes());
    assert_eq!(statuses(&client.got), [401, 401]);
    assert!(client.program.is_none(), "no program has begun");
    world.receive(&mut client, ask("GET", "/cgi/secret/a", &("Accept: a\r\n".to_owned() + RIGHT)).as_bytes());
    let variables = Arc::clone(&client.program.as_ref().unwrap().begin.variables);
    let variable = |name: &[u8]| variables.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    assert_eq!(variable(b"REMOTE_USER").as_deref(), Some("bob"));
    assert_eq!(variable(b"AUTH_TYPE").as_deref(), Some("Basic"));
    assert_eq!(variable(b"HTTP_AUTHORIZATION"), None);
    assert_eq!(variable(b"HTTP_ACCEPT").as_deref(), Some("a"));
    world.hear(&mut client, |program| program.say(b"Content-Length: 0\n\n"));
    world.hear(&mut client, |program| program.ended = true);
    assert_eq!(world.tally.records.last().map(|record| &*record.user), Some(&b"bob"[..]));
    // Elsewhere a password is the program's own business.
    let mut client = world.connect();
    world.receive(&mut client, ask("GET", "/cgi/open", RIGHT).as_bytes());
    let variables = Arc::clone(&client.program.as_ref().unwrap().begin.variables);
    assert!(variables.get(b"HTTP_AUTHORIZATION").is_some() && variables.get(b"REMOTE_USER").is_none());
}

#[test]
fn a_programs_redirection_does_not_lead_past_the_log_in() {
    for (fields, status) in [("", 401), (WRONG, 401)] {
        let mut world = world_of_places();
        let mut client = world.connect();
        world.receive(&mut client, ask("GET", "/cgi/open", fields).as_bytes());
        world.hear(&mut client, |program| program.say(b"Location: /cgi/secret/a\n\n"));
        world.hear(&mut client, |program| program.ended = true);
        assert_eq!(statuses(&client.got), [status], "{fields}");
        let mut client = H2Client::connect(&mut world, 1 << 20);
        let fields: &[(&str, &str)] =
            if fields.is_empty() { &[] } else { &[("authorization", "Basic Ym9iOndhc3A=")] };
        let end = flash_h2::frame::flag::END_STREAM;
        client.send(&mut world, &H2Client::request(1, "GET", "/cgi/open", fields, end));
        client.hear(&mut world, 1, |program| program.say(b"Location: /cgi/secret/a\n\n"));
        client.hear(&mut world, 1, |program| program.ended = true);
        assert_eq!(client.answer(1).status(), "401");
    }
}

#[test]
fn the_same_holds_over_http_2() {
    let mut world = world_of_bob();
    let mut client = H2Client::connect(&mut world, 1 << 20);
    let end = flash_h2::frame::flag::END_STREAM;
    let (right, wrong) = ("Basic Ym9iOmJlZQ==", "Basic Ym9iOndhc3A=");
    for (stream, (path, value, status)) in (1..).step_by(2).zip([
        ("/small.txt", "", "401"),
        ("/none", wrong, "401"),
        ("/small.txt", right, "200"),
        ("/middle.txt", right, "200"),
        ("/none", right, "404"),
    ]) {
        let fields = if value.is_empty() { vec![] } else { vec![("authorization", value)] };
        client.send(&mut world, &H2Client::request(stream, "GET", path, &fields, end));
        assert_eq!(client.answer(stream).status(), status, "{path} {value}");
    }
    assert_eq!(client.answer(1).field("www-authenticate"), Some("Basic realm=\"bees\""));
    // With a body that nobody waits for.
    client.send(&mut world, &H2Client::request(21, "POST", "/small.txt", &[("content-length", "3")], 0));
    assert_eq!(client.answer(21).status(), "401");
    assert!(world.tally.records.iter().all(|record| (&*record.user == b"bob") == (record.status != 401)));
}
