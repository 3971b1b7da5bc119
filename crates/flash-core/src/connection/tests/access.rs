//! Networks and limits, by the client that a trusted proxy names.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::clients::Clients;
use crate::clients::forwarded::{ForwardedField, TrustedProxies};
use crate::record::Peer;
use crate::site::access::{AccessNetworks, AccessRules};
use crate::site::field_rules::{FieldList, FieldRules};
use crate::testing::H2Client;

struct Table(Vec<AtomicU64>);

impl AsRef<[AtomicU64]> for Table {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// A table for the limits of a few clients.
pub(super) fn limits() -> Clients {
    let words = (0..64).map(|_| AtomicU64::new(0)).collect();
    Clients::unlimited().with_rates(Arc::new(Table(words)))
}

/// Its clients are behind a proxy, whose address is that of the tests' clients.
fn world_of(rules: AccessRules) -> World {
    let networks = vec!["192.0.2.7".parse().unwrap()];
    let mut world = world_with(Settings {
        clients: limits(),
        trusted_proxies: TrustedProxies::new(networks, ForwardedField::XForwardedFor),
        ..Settings::default()
    });
    world.rules().access = Some(rules);
    world
}

fn limited(rate: &str) -> World {
    world_of(AccessRules { limit: Some(rate.parse().unwrap()), ..AccessRules::default() })
}

fn from(client: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6, {client}\r\n\r\n")
}

/// Each word has its own limit, wherever it stands in whichever list.
#[test]
fn limits_of_words_do_not_mix() {
    let rules = |list: &str| {
        let lists = [FieldList::parse("User-Agent", list).unwrap()];
        AccessRules { fields: Some(Arc::new(FieldRules(lists.into()))), ..AccessRules::default() }
    };
    let ask = |world: &mut World, agent: &str| {
        let head = format!("GET /small.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n");
        statuses(&world.ask(head))[0]
    };
    let mut world = world_of(rules("Wordx 1/m"));
    assert_eq!(["Wordx", "wordX"].map(|agent| ask(&mut world, agent)), [200, 429]);
    // After a reload, or in another place.
    world.rules().access = Some(rules("Wordy 1/m"));
    assert_eq!(["Wordy", "Wordy"].map(|agent| ask(&mut world, agent)), [200, 429]);
    world.rules().access = Some(rules("Slow 1000/s\nTight 1/m\nother 1/m\nWordx 1/m"));
    assert_eq!(
        ["Wordx", "Slow Tight", "Slow Tight", "Slow"].map(|agent| ask(&mut world, agent)),
        [429, 200, 429, 200]
    );
}

/// Whether it has a line in a log or not.
#[test]
fn a_response_counts_for_the_client_behind_the_proxy() {
    let mut world = world_of(AccessRules::default());
    world.rules().access_log = LogChoice::default();
    assert_eq!(statuses(&world.ask(from("198.51.100.1", "/small.txt"))), [200]);
    assert!(world.tally.records.is_empty(), "there is no log");
    let end = world.tally.ended.last().expect("a response");
    assert_eq!((end.peer.to_string(), end.body_bytes), ("198.51.100.1".to_owned(), 100));
}

#[test]
fn only_admitted_networks_are_answered() {
    let allowed = ["198.51.100.0/24".parse().unwrap()];
    let mut world = world_of(AccessRules {
        networks: AccessNetworks::new(&allowed, &["198.51.100.9".parse().unwrap()]),
        ..AccessRules::default()
    });
    for (client, status) in [("198.51.100.1", 200), ("198.51.100.9", 403), ("203.0.113.1", 403), ("::1", 403)]
    {
        assert_eq!(statuses(&world.ask(from(client, "/small.txt"))), [status], "{client}");
        // What is not there stays unknown to those who may not come.
        let expected = if status == 200 { 404 } else { 403 };
        assert_eq!(statuses(&world.ask(from(client, "/none"))), [expected], "{client}");
    }
    assert_eq!(statuses(&world.ask(get("/small.txt"))), [403], "the proxy itself is not admitted");
    // The connection goes on after a refusal, unless a body may follow.
    let requests = from("203.0.113.1", "/a") + &from("198.51.100.1", "/small.txt");
    assert_eq!(statuses(&world.ask(requests)), [403, 200]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(statuses(&world.ask(post.to_owned() + &from("198.51.100.1", "/small.txt"))), [403]);
}

#[test]
fn a_client_beyond_its_limit_is_told_when_to_come_back() {
    let mut world = limited("1/m burst 2");
    let all: String = (0..4).map(|_| from("198.51.100.1", "/small.txt")).collect();
    let answers = replies(&world.ask(all), &[]);
    let seen: Vec<_> = answers.iter().map(|reply| (reply.status, reply.field("Retry-After"))).collect();
    assert_eq!(seen, [(200, None), (200, None), (429, Some("60")), (429, Some("60"))]);
    assert_eq!(
        statuses(&world.ask(from("198.51.100.2", "/small.txt"))),
        [200],
        "another client is another one"
    );
    let mut client = world.connect();
    client.connection.h1_mut().set_peer(Peer::Inet("203.0.113.1:1".parse().unwrap()));
    world.receive(&mut client, (from("198.51.100.1", "/small.txt")).as_bytes());
    assert_eq!(statuses(&client.got), [200], "who is no proxy is itself, whatever it says");
}

#[test]
fn a_request_is_counted_once_however_long_it_takes() {
    let mut world = limited("1/m burst 2");
    world.jobs = Jobs::Later;
    // A look-up first, and a body that is dropped before.
    let dropped = "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    let mut client = world.connect();
    for piece in [dropped, "a", "bc", &get("/middle.txt"), &get("/middle.txt")] {
        world.receive(&mut client, piece.as_bytes());
        world.complete_all(&mut client);
    }
    assert_eq!(statuses(&client.got), [200, 200, 429]);
}

#[test]
fn a_connection_too_many_is_told_so_and_others_end_as_usual() {
    let words = || Arc::new(Table((0..64).map(|_| AtomicU64::new(0)).collect()));
    let clients = Clients::unlimited().with_connections(2, words());
    let trusted_proxies =
        TrustedProxies::new(vec!["192.0.2.8".parse().unwrap()], ForwardedField::XForwardedFor);
    let mut world = world_with(Settings { clients, trusted_proxies, ..Settings::default() });
    let (one, mut two) = (world.connect(), world.connect());
    let mut three = world.open();
    assert_eq!(world.turn(&mut three), Waits::ForBytes, "it lingers");
    let reply = reply(&three.got);
    assert_eq!((reply.status, reply.field("Retry-After")), (429, Some("1")));
    world.receive(&mut two, get("/small.txt").as_bytes());
    assert_eq!(statuses(&two.got), [200]);
    // Another process goes on with one of them, and ends it.
    let settings = &world.server.settings;
    let state = one.connection.idle_state().expect("it is idle");
    one.connection.pass_on();
    let peer = two.connection.peer();
    let transport = |peer| crate::TransportInfo::plain(peer);
    assert!(!settings.may_connect(&transport(peer)));
    drop(Connection::from_idle(state, settings));
    assert!(settings.may_connect(&transport(peer)));
    // A trusted proxy has as many as it likes.
    let proxy = transport(Peer::Inet("192.0.2.8:1".parse().unwrap()));
    let proxied: Vec<_> = (0..5).map(|_| Connection::new(proxy, settings, &world.now)).collect();
    assert!(
        proxied.iter().all(|connection| connection.counted_at().is_none()) && settings.may_connect(&proxy)
    );
}

#[test]
fn the_same_rules_hold_over_http_2() {
    let allowed = ["198.51.100.0/24".parse().unwrap()];
    let networks = AccessNetworks::new(&allowed, &[]);
    let mut world =
        world_of(AccessRules { networks, limit: Some("2/m".parse().unwrap()), ..AccessRules::default() });
    let mut client = H2Client::connect(&mut world, 1 << 20);
    let asks =
        [("198.51.100.1", "200"), ("203.0.113.1", "403"), ("198.51.100.1", "200"), ("198.51.100.1", "429")];
    for (stream, (from, status)) in (1..).step_by(2).zip(asks) {
        let fields = [("x-forwarded-for", from)];
        let end = flash_h2::frame::flag::END_STREAM;
        client.send(&mut world, &H2Client::request(stream, "GET", "/small.txt", &fields, end));
        assert_eq!(client.answer(stream).status(), status, "{from}");
    }
}
