//! Signed links: what nobody gets without one, and what is between a link and its file.

use super::programs::{manner, routes};
use super::*;
use crate::clients::ByteRate;
use crate::clients::link::{BadLink, Link, Links};
use crate::site::access::{AccessNetworks, AccessRules};
use crate::site::hosts::{HostName, Hosts};
use crate::site::places::{PlaceNames, Places};
use crate::site::{Site, SiteSettings};
use crate::upstream::UpstreamProtocol;

/// A link says itself what it is.
#[derive(Debug)]
pub(super) struct Honest;

impl Links for Honest {
    fn check(&self, link: &Link<'_>) -> Result<Option<ByteRate>, BadLink> {
        match link.query {
            b"right" => Ok(None),
            b"brief" if link.now_s < 1_000_000_002 => Ok(None),
            b"old" | b"brief" => Err(BadLink::Expired),
            _ => Err(BadLink::Wrong),
        }
    }
}

pub(super) fn by_link() -> AccessRules {
    AccessRules { links: Some(Arc::new(Honest)), ..AccessRules::default() }
}

fn ask(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn nobody_learns_what_is_there_without_a_link() {
    let mut world = world();
    world.rules().access = Some(by_link());
    world.rules().list = true;
    world.jobs = Jobs::Later;
    for method in ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "BREW"] {
        for path in ["/small.txt", "/none", "/folder/", "/closed", "/.git/config", "*"] {
            if path == "*" && method != "OPTIONS" {
                continue;
            }
            for (query, status) in [("", 403), ("?", 403), ("?old", 410), ("?right&", 403)] {
                let query = if path == "*" { "" } else { query };
                let mut client = world.connect();
                world.receive(&mut client, ask(method, &format!("{path}{query}")).as_bytes());
                assert!(client.pending.is_none(), "no file is looked for");
                let heads: &[usize] = if method == "HEAD" { &[0] } else { &[] };
                let reply = replies(&client.got, heads).remove(0);
                let expected = if path == "*" { 403 } else { status };
                assert_eq!(reply.status, expected, "{method} {path}{query}");
                assert_eq!(reply.field("Cache-Control"), Some("no-store"));
            }
        }
    }
    world.jobs = Jobs::AtOnce;
    for (path, status) in [("/small.txt", 200), ("/none", 404), ("/folder/", 200)] {
        assert_eq!(statuses(&world.ask(ask("GET", &format!("{path}?right")))), [status]);
    }
}

#[test]
fn a_link_that_expires_while_its_file_is_looked_for_was_right() {
    let mut world = world();
    world.rules().access = Some(by_link());
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    world.receive(&mut client, ask("GET", "/small.txt?brief").as_bytes());
    assert!(client.pending.is_some());
    world.pass_ms(&mut client, 3_000);
    world.complete_all(&mut client);
    world.receive(&mut client, ask("GET", "/small.txt?brief").as_bytes());
    assert_eq!(statuses(&client.got), [200, 410]);
}

#[test]
fn networks_come_first_and_tls_before_links() {
    let mut world = world();
    let networks = AccessNetworks::new(&["198.51.100.0/24".parse().unwrap()], &[]);
    world.rules().access = Some(AccessRules { networks, ..by_link() });
    let refused = world.ask(ask("GET", "/small.txt?old"));
    assert_eq!((statuses(&refused), reply(&refused).field("Cache-Control")), (vec![403], None));
    world.rules().access = Some(by_link());
    world.site().https_port = Some(443);
    assert_eq!(statuses(&world.ask(ask("GET", "/small.txt"))), [308]);
}

/// `/cgi/secret` needs a link, and so does `/cgi/other`, another one.
fn world_of_places() -> World {
    let mut world = world();
    let names = PlaceNames::new([], [&b"/cgi/other"[..], b"/cgi/secret"].map(Into::into), []);
    let routes = Arc::new(routes());
    let place = |access| {
        let settings = SiteSettings { access: Some(access), ..SiteSettings::default() };
        Arc::new(Site { settings: settings.into(), routes: Some(Arc::clone(&routes)), ..Site::default() })
    };
    let places = Some(Places::new(Arc::new(names), vec![place(by_link()), place(by_link())]));
    let site = Site { places, routes: Some(Arc::clone(&routes)), ..Site::default() };
    world.server.hosts = Hosts::new(vec![(site, vec![HostName::Any])]);
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world
}

/// A program that is redirected to another path goes on with the query of that path.
#[test]
fn a_programs_redirection_needs_a_link_where_it_leads() {
    for (from, to, status) in [
        ("/cgi/open", "/cgi/secret/a", 403),
        ("/cgi/open", "/cgi/secret/a?old", 410),
        ("/cgi/secret/b?right", "/cgi/other/a", 403),
        ("/cgi/secret/b?right", "/cgi/secret/a", 0),
        ("/cgi/open", "/cgi/secret/a?right", 0),
    ] {
        let mut world = world_of_places();
        let mut client = world.connect();
        world.receive(&mut client, ask("GET", from).as_bytes());
        world.hear(&mut client, |program| program.say(format!("Location: {to}\n\n").as_bytes()));
        world.hear(&mut client, |program| program.ended = true);
        let expected: &[u16] = if status == 0 { &[] } else { &[status] };
        assert_eq!(statuses(&client.got), expected, "{from} to {to}");
    }
}
