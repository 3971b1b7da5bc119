//! Which site answers: by the host of each request, also behind a body that is dropped and while a look-up is under way.

use super::programs::{manner, routes};
use super::*;
use crate::file::header::HeaderTemplate;
use crate::site::hosts::{HostName, Hosts};
use crate::site::id::SiteId;
use crate::site::{Site, SiteSettings};
use crate::upstream::UpstreamProtocol;

fn site_named(number: u32, name: &str) -> Site {
    Site {
        id: SiteId(number),
        template: Arc::new(HeaderTemplate {
            fields: format!("X-Site: {name}\r\n").into(),
            ..Default::default()
        }),
        settings: SiteSettings { body_bytes_max: u64::from(number) * 10, ..SiteSettings::default() }.into(),
        ..Site::default()
    }
}

/// `a` and `*.b` are sites, on the same disk. Each names itself in its errors. `a` takes no body.
fn world_of_sites(any: bool) -> World {
    let mut world = world();
    let exact = |name: &str| HostName::Exact(name.as_bytes().into());
    let mut names = vec![exact("a")];
    names.extend(any.then_some(HostName::Any));
    world.server.hosts = Hosts::new(vec![
        (site_named(0, "a"), names),
        (site_named(1, "b"), vec![HostName::Below(b"b".as_slice().into())]),
    ]);
    world
}

fn ask(host: &str) -> String {
    format!("GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// The status of each response, and the site that it names.
fn sites(bytes: &[u8]) -> Vec<(u16, Option<String>)> {
    replies(bytes, &[]).iter().map(|reply| (reply.status, reply.field("X-Site").map(str::to_owned))).collect()
}

fn of(status: u16, site: &str) -> (u16, Option<String>) {
    (status, Some(site.into()))
}

#[test]
fn each_request_is_answered_by_its_hosts_site() {
    let mut world = world_of_sites(false);
    let requests = ask("a") + &ask("x.b:80") + &ask("A.") + &ask("b") + &ask("c") + &ask("y.X.B");
    let expected = vec![of(404, "a"), of(404, "b"), of(404, "a"), (421, None), (421, None), of(404, "b")];
    assert_eq!(sites(&world.ask(requests)), expected, "the connection stays open");
    // RFC 9112 §3.2.2: the target's host wins.
    assert_eq!(sites(&world.ask("GET http://x.b/none HTTP/1.1\r\nHost: a\r\n\r\n")), [of(404, "b")]);
    assert_eq!(sites(&world.ask("GET /none HTTP/1.0\r\n\r\n")), [(421, None)], "no host is no site's");
    assert_eq!(sites(&world.ask("nonsense\r\n\r\n")), [(400, None)]);
}

#[test]
fn the_site_of_all_others_answers_an_unknown_host() {
    let mut world = world_of_sites(true);
    let requests = ask("c") + &ask("x.b") + "GET /none HTTP/1.0\r\n\r\n";
    assert_eq!(sites(&world.ask(requests)), [of(404, "a"), of(404, "b"), of(404, "a")]);
    assert_eq!(sites(&world.ask("nonsense\r\n\r\n")), [of(400, "a")]);
}

#[test]
fn hot_paths_have_a_host_by_which_another_server_finds_their_sites() {
    for any in [false, true] {
        let mut world = world_of_sites(any);
        for (host, path) in [("x.b", "/small.txt"), ("a", "/small.txt"), ("a", "/one-window.bin")] {
            for _ in 0..3 {
                world.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            }
        }
        let mut looks: Vec<_> = world
            .server
            .hot_paths(10)
            .iter()
            .map(|(host, path)| world.server.first_look(host, path).expect("a site has it"))
            .map(|find| (find.site.0, String::from_utf8_lossy(find.path.as_bytes()).into_owned()))
            .collect();
        looks.sort();
        let expected = [(0, "/one-window.bin"), (0, "/small.txt"), (1, "/small.txt")];
        assert_eq!(looks, expected.map(|(site, path)| (site, path.to_owned())));
    }
    let world = world_of_sites(false);
    // Another configuration may have no such site, and another release may write something else.
    assert!(world.server.first_look(b"c", b"/small.txt").is_none());
    assert!(world.server.first_look(b"a", b"/../small.txt").is_none());
}

#[test]
fn equal_paths_of_two_sites_are_looked_up_and_cached_apart() {
    let mut world = world_of_sites(false);
    world.jobs = Jobs::Later;
    for (host, number) in [("a", 0), ("x.b", 1)] {
        let mut client = world.connect();
        world.receive(&mut client, format!("GET /small.txt HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        match &client.pending {
            Some((_, Job::Find(find))) => assert_eq!(find.site, SiteId(number)),
            other => panic!("{host} is answered from the other's cache: {other:?}"),
        }
        world.complete_all(&mut client);
        assert_eq!(reply(&client.got).body, text(100));
    }
}

#[test]
fn a_body_that_is_dropped_has_the_limit_of_its_site() {
    let mut world = world_of_sites(false);
    let mut ask = |host: &str, length: &str, body: &str| {
        let head = format!("GET /none HTTP/1.1\r\nHost: {host}\r\n{length}\r\n\r\n{body}");
        statuses(&world.ask(head + &super::get("/none"))).first().copied()
    };
    assert_eq!(ask("a", "Content-Length: 3", "abc"), Some(413));
    assert_eq!(ask("x.b", "Content-Length: 3", "abc"), Some(404));
    let chunks = |count| "3\r\nabc\r\n".repeat(count) + "0\r\n\r\n";
    assert_eq!(ask("a", "Transfer-Encoding: chunked", &chunks(1)), Some(413));
    assert_eq!(ask("x.b", "Transfer-Encoding: chunked", &chunks(3)), Some(404));
    assert_eq!(ask("x.b", "Transfer-Encoding: chunked", &chunks(4)), Some(413));
}

/// Its Host field may name another one (RFC 9112 §3.2.2).
#[test]
fn a_programs_redirection_stays_in_the_site_of_its_request() {
    for (request, host) in [
        ("GET http://a/cgi/x HTTP/1.1\r\nHost: x.b\r\n\r\n", &b"a"[..]),
        ("GET http://a:80/cgi/x HTTP/1.0\r\n\r\n", b"a:80"),
        ("GET /cgi/x HTTP/1.1\r\nHost: A\r\n\r\n", b"A"),
    ] {
        let mut world = world();
        let site = |number, name| Site { routes: Some(Arc::new(routes())), ..site_named(number, name) };
        world.server.hosts = Hosts::new(vec![
            (site(0, "a"), vec![HostName::Exact(b"a".as_slice().into())]),
            (site(1, "b"), vec![HostName::Below(b"b".as_slice().into())]),
        ]);
        world.manner = Some(manner(UpstreamProtocol::Cgi));
        let mut client = world.connect();
        world.receive(&mut client, request.as_bytes());
        world.hear(&mut client, |program| program.say(b"Location: /cgi/y\n\n"));
        world.hear(&mut client, |program| program.ended = true);
        let variables = Arc::clone(&client.program.as_ref().unwrap().begin.variables);
        assert_eq!(variables.get(b"REQUEST_URI"), Some(&b"/cgi/y"[..]), "{request}");
        assert_eq!(variables.get(b"HTTP_HOST"), Some(host), "{request}");
        world.hear(&mut client, |program| program.say(b"Location: /none\n\n"));
        world.hear(&mut client, |program| program.ended = true);
        assert_eq!(sites(&client.got), [of(404, "a")], "{request}");
    }
}

#[test]
fn rfc9110_7_2_an_empty_host_is_no_place_to_redirect_to() {
    for (host, status) in [("", 400), (":80", 400), ("a", 308)] {
        let mut world = world();
        world.site().https_port = Some(443);
        let reply = reply(&world.ask(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n")));
        assert_eq!(reply.status, status, "{host}: {:?}", reply.field("Location"));
    }
}
