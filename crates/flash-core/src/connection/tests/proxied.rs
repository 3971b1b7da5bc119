//! The header of the PROXY protocol: required, bounded, and believed from trusted proxies only.

use std::sync::Mutex;

use super::*;
use crate::clients::forwarded::{ForwardedField, TrustedProxies};
use crate::clients::proxy_header::HEADER_BYTES_MAX;
use crate::connection::transport::TransportInfo;
use crate::record::Peer;
use crate::record::refusal_log::RefusalLog;

const HEADER: &str = "PROXY TCP4 198.51.100.9 192.0.2.1 4711 80\r\n";
const PROXY: &str = "192.0.2.200:5000";

struct Proxied {
    world: World,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Proxied {
    fn new(trusted: &[&str]) -> Self {
        let networks = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let trusted_proxies = TrustedProxies::new(networks, ForwardedField::XForwardedFor);
        let mut world = world_with(Settings { trusted_proxies, ..Settings::default() });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&lines);
        world.server.refusals =
            RefusalLog::new(move |refused| written.lock().unwrap().push(refused.text(None).to_string()))
                .into();
        Self { world, lines }
    }

    fn connect(&mut self) -> Client {
        let peer = Peer::Inet(PROXY.parse().unwrap());
        let transport = TransportInfo { proxy_header: true, ..TransportInfo::plain(peer) };
        let mut client = self.world.connect();
        client.connection = Connection::new(transport, &self.world.server.settings, &self.world.now);
        client
    }

    /// Who the log says has asked.
    fn peers(&self) -> Vec<String> {
        self.world.tally.records.iter().map(|record| record.peer.to_string()).collect()
    }

    fn said(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

#[test]
fn the_header_names_the_client_however_it_arrives() {
    let requests = get("/small.txt") + &get("/middle.txt");
    let input = HEADER.to_owned() + &requests;
    for size in [1, 7, HEADER.len(), HEADER.len() + 1, input.len()] {
        let mut proxied = Proxied::new(&[]);
        let mut client = proxied.connect();
        for piece in input.as_bytes().chunks(size) {
            proxied.world.receive(&mut client, piece);
            proxied.world.complete_all(&mut client);
        }
        assert_eq!(statuses(&client.got), [200, 200], "in pieces of {size}");
        assert_eq!(proxied.peers(), ["198.51.100.9", "198.51.100.9"]);
        assert_eq!(client.connection.peer(), Peer::Inet("198.51.100.9:4711".parse().unwrap()));
        assert_eq!(proxied.said(), [""; 0]);
    }
}

#[test]
fn a_proxy_that_speaks_for_itself_is_the_client() {
    let mut proxied = Proxied::new(&[]);
    let mut client = proxied.connect();
    proxied.world.receive(&mut client, ("PROXY UNKNOWN\r\n".to_owned() + &get("/small.txt")).as_bytes());
    proxied.world.complete_all(&mut client);
    assert_eq!((statuses(&client.got), proxied.peers()), (vec![200], vec!["192.0.2.200".to_owned()]));
}

#[test]
fn without_the_header_there_is_no_response() {
    for wrong in [get("/small.txt"), "PROXY TCP5 ".to_owned() + &"x".repeat(200), "P\n".into()] {
        let mut proxied = Proxied::new(&[]);
        let mut client = proxied.connect();
        assert_eq!(proxied.world.receive(&mut client, wrong.as_bytes()), Waits::Closed, "{wrong}");
        assert_eq!((&client.got[..], proxied.peers().len()), (&b""[..], 0));
        assert!(
            proxied.said()[0].starts_with("client 192.0.2.200: closed: the connection did not begin with")
        );
    }
}

#[test]
fn a_header_that_stays_incomplete_is_late_and_bounded() {
    let mut proxied = Proxied::new(&[]);
    let mut client = proxied.connect();
    assert_eq!(proxied.world.receive(&mut client, b"PROXY TCP4"), Waits::ForBytes);
    assert!(client.connection.idle_state().is_none(), "no other process could go on with it");
    proxied.world.now = crate::Now::new(16_000_000, 1_000_000_011_000);
    assert!(client.connection.deadline_ms() <= proxied.world.now.ms());
    proxied.world.with(&mut client, |connection, cx| connection.expire(cx, || 0));
    assert_eq!((proxied.world.turn(&mut client), proxied.said().len()), (Waits::Closed, 1));
    // The longest header of version 2, and one byte more.
    for (length, waits) in [(HEADER_BYTES_MAX - 16, Waits::ForBytes), (HEADER_BYTES_MAX - 15, Waits::Closed)]
    {
        let mut client = proxied.connect();
        let start = [b"\r\n\r\n\0\r\nQUIT\n\x20\0", &(length as u16).to_be_bytes()[..]].concat();
        assert_eq!(proxied.world.receive(&mut client, &start), waits);
    }
}

#[test]
fn a_header_counts_from_trusted_proxies_only_if_there_are_any() {
    for (trusted, status) in [("192.0.2.0/24", vec![200]), ("10.0.0.0/8", vec![])] {
        let mut proxied = Proxied::new(&[trusted]);
        let mut client = proxied.connect();
        proxied.world.receive(&mut client, (HEADER.to_owned() + &get("/small.txt")).as_bytes());
        proxied.world.complete_all(&mut client);
        assert_eq!(statuses(&client.got), status, "{trusted}");
        let is_refused = proxied.said().iter().any(|line| line.contains("--trusted-proxies does not name"));
        assert_eq!(is_refused, status.is_empty());
    }
    // A client that is itself no trusted proxy forges X-Forwarded-For in vain; a trusted one is believed.
    for (trusted, who) in
        [(&["192.0.2.200"][..], "198.51.100.9"), (&["192.0.2.200", "198.51.100.9"], "203.0.113.5")]
    {
        let mut proxied = Proxied::new(trusted);
        let mut client = proxied.connect();
        let request = "GET /small.txt HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n";
        proxied.world.receive(&mut client, (HEADER.to_owned() + request).as_bytes());
        proxied.world.complete_all(&mut client);
        assert_eq!(proxied.peers(), [who]);
    }
}
