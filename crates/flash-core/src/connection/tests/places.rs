//! Which place of a site answers: by the path of each request, also behind a body that is dropped, and for each of its rules.

use super::*;
use crate::file::header::HeaderTemplate;
use crate::site::hosts::{HostName, Hosts};
use crate::site::id::SiteId;
use crate::site::path_rules::PathRule;
use crate::site::places::{PlaceNames, Places};
use crate::site::{Site, SiteSettings};

/// A place that names itself in its errors.
fn place(id: u32, name: &str, settings: SiteSettings) -> Arc<Site> {
    let fields = format!("X-Place: {name}\r\n").into();
    let template = Arc::new(HeaderTemplate { fields, ..Default::default() });
    Arc::new(Site { id: SiteId(id), template, settings: settings.into(), ..Site::default() })
}

/// `/private` is denied, `/up` takes bodies and lists folders, and files whose names end in `.x` are a place, too.
fn world_of_places() -> World {
    let mut world = world();
    let names = PlaceNames::new([], [&b"/private"[..], b"/up"].map(Into::into), [b".x".as_slice().into()]);
    let deny = || [PathRule::parse("/private").unwrap()].into_iter().collect();
    let plain = SiteSettings { body_bytes_max: 5, ..SiteSettings::default() };
    let private = SiteSettings { deny: deny(), ..plain.clone() };
    let up = SiteSettings { body_bytes_max: 100, list: true, ..plain.clone() };
    let places = vec![
        place(0, "x", plain.clone()),
        place(1, "private", private.clone()),
        place(1, "private x", private),
        place(0, "up", up.clone()),
        place(0, "up x", up),
    ];
    let places = Some(Places::new(Arc::new(names), places));
    let site = Site { places, settings: plain.into(), ..Site::default() };
    world.server.hosts = Hosts::new(vec![(site, vec![HostName::Any])]);
    world
}

fn answer(world: &mut World, request: impl AsRef<[u8]>) -> (u16, Option<String>) {
    let bytes = world.ask(request);
    let reply = replies(&bytes, &[]).remove(0);
    (reply.status, reply.field("X-Place").map(str::to_owned))
}

#[test]
fn each_request_is_answered_by_the_place_of_its_path() {
    let mut world = world_of_places();
    for (path, status, name) in [
        ("/none", 404, None),
        ("/none.x", 404, Some("x")),
        ("/private", 404, Some("private")),
        ("/private/a", 404, Some("private")),
        ("/private/a.x", 404, Some("private x")),
        ("/privately", 404, None),
        ("/up/none", 404, Some("up")),
        ("/up/../private/none", 404, Some("private")),
        ("/%75p/none.%78", 404, Some("up x")),
        ("/up/..%2fprivate", 404, Some("private")),
        ("/..", 400, None),
    ] {
        assert_eq!(answer(&mut world, get(path)), (status, name.map(str::to_owned)), "{path}");
    }
}

#[test]
fn a_request_has_the_limits_of_its_place() {
    let mut world = world_of_places();
    let post = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789");
    let chunked = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"
        )
    };
    for request in [post, chunked as fn(&str) -> String] {
        assert_eq!(answer(&mut world, request("/none")).0, 413);
        assert_eq!(answer(&mut world, request("/up/none")), (404, Some("up".into())));
    }
}

#[test]
fn an_options_request_about_the_server_is_the_sites() {
    let mut world = world_of_places();
    assert_eq!(answer(&mut world, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), (204, None));
    assert_eq!(answer(&mut world, "OPTIONS /up HTTP/1.1\r\nHost: h\r\n\r\n"), (204, Some("up".into())));
}

#[test]
fn places_with_one_number_share_what_is_cached() {
    let mut world = world_of_places();
    world.disk.put("/up/a.txt", *b"up");
    world.disk.put("/a.txt", *b"site");
    world.disk.put("/private.txt", *b"other");
    for (path, status) in
        [("/up/a.txt", 200), ("/a.txt", 200), ("/private.txt", 200), ("/private/a.txt", 404)]
    {
        for _ in 0..3 {
            assert_eq!(answer(&mut world, get(path)).0, status, "{path}");
        }
    }
    let found = world.disk.done.get("find").copied().unwrap_or_default();
    assert_eq!(found, 3, "each file is looked up once, and what is denied never");
}
