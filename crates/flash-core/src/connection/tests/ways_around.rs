//! Rules of a place hold for whatever answers, by whichever path it is asked for, and whatever the protocol.

use super::access::limits;
use super::programs::{manner, routes};
use super::what_answers::Circle;
use super::*;
use crate::file::validators::ReprDigest;
use crate::path::SitePath;
use crate::site::access::{AccessNetworks, AccessRules};
use crate::site::fallback::{Answers, Fallback};
use crate::site::field_rules::{FieldList, FieldRules};
use crate::site::hosts::{HostName, Hosts};
use crate::site::methods::{Method, Methods};
use crate::site::path_rules::PathRule;
use crate::site::places::{PlaceNames, Places};
use crate::site::redirect::Redirect;
use crate::site::{Site, SiteSettings};
use crate::testing::H2Client;
use crate::upstream::UpstreamProtocol;

fn settings(fallback: Option<&str>) -> SiteSettings {
    let fallback = fallback.map(|path| {
        Fallback::new(SitePath::parse(path.as_bytes()).expect("a path").into_owned(), Answers::All)
    });
    SiteSettings { fallback, digests: true, ..SiteSettings::default() }
}

/// A site with a place, whose rules are these. `/page.html` has a copy and digests, `/sub/` and `/prog/` have an index, `/a.php` and
/// `/front.php` are scripts, and programs answer below `/cgi` and `/app`.
pub(super) fn world_of(place: &str, rules: SiteSettings, fallback: Option<&str>) -> World {
    world_of_rules(settings(fallback), place, rules)
}

/// The same, whose other rules are those of the site.
pub(super) fn world_of_rules(of_site: SiteSettings, place: &str, rules: SiteSettings) -> World {
    let mut world = world_with(Settings { clients: limits(), ..Settings::default() });
    world.disk.repr_digest = ReprDigest::Known([7; 32]);
    for path in ["/page.html", "/page.html.gz", "/sub/index.html", "/404.html", "/404.html.gz"] {
        world.disk.put(path, path.as_bytes());
    }
    ["/a.php", "/front.php", "/prog/index.php"].into_iter().for_each(|path| world.disk.put_script(path));
    ["/sub/index.html", "/prog/index.php"].into_iter().for_each(|path| world.disk.put_index(path));
    let (prefixes, suffixes) = match place.strip_prefix('*') {
        Some(suffix) => (vec![], vec![suffix.as_bytes().into()]),
        None => (vec![place.as_bytes().into()], vec![]),
    };
    let routes = Arc::new(routes());
    let site = |settings: SiteSettings, places| Site {
        settings: settings.into(),
        routes: Some(Arc::clone(&routes)),
        places,
        ..Site::default()
    };
    let places =
        Places::new(Arc::new(PlaceNames::new([], prefixes, suffixes)), vec![Arc::new(site(rules, None))]);
    let site = site(of_site, Some(places));
    world.server.hosts = Hosts::new(vec![(site, vec![HostName::Any])]);
    world.jobs = Jobs::AtOnce;
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world
}

/// The status of a response, or 0 if a program was asked.
fn status(world: &mut World, method: &str, target: &str) -> u16 {
    let mut client = world.connect();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    world.receive(&mut client, request.as_bytes());
    match client.program {
        Some(_) => 0,
        None => replies(&client.got, if method == "HEAD" { &[0] } else { &[] }).remove(0).status,
    }
}

fn status_over_http_2(world: &mut World, method: &str, target: &str) -> u16 {
    let mut client = H2Client::connect(world, 1 << 20);
    let fields = [("accept-encoding", "gzip")];
    let end = flash_h2::frame::flag::END_STREAM;
    client.send(world, &H2Client::request(1, method, target, &fields, end));
    while !client.jobs.is_empty() {
        client.complete(world, 0);
    }
    match client.programs.is_empty() {
        true => client.answer(1).status().parse().expect("a status"),
        false => 0,
    }
}

/// The same after a program has redirected to the target.
fn status_of_redirected(world: &mut World, method: &str, target: &str) -> u16 {
    let mut client = world.connect();
    let request = format!("{method} /cgi/redirects HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    world.receive(&mut client, request.as_bytes());
    world.hear(&mut client, |program| program.say(format!("Location: {target}\n\n")));
    world.hear(&mut client, |program| program.ended = true);
    match client.program.as_ref().is_some_and(|program| program.stream.is_some()) {
        true => 0,
        false => replies(&client.got, if method == "HEAD" { &[0] } else { &[] }).remove(0).status,
    }
}

/// A place, a request that what lies there answers, and the fallback that there is.
const WAYS: [(&str, &str, Option<&str>); 28] = [
    ("/sub/index.html", "/sub/", None),
    ("/sub/index.html", "/%73ub/.//", None),
    ("/sub/index.html", "/sub/?C=N", None),
    ("*.html", "/sub/", None),
    ("*x.html", "/sub/x/..", None),
    ("/prog/index.php", "/prog/", None),
    ("*.php", "/prog/", None),
    ("*.php", "/a.php/info", None),
    ("*.php", "/a.php/", None),
    ("*.php", "/a.php/b.txt/c", None),
    ("*.php", "/%61.%70hp/info", None),
    ("/front.php", "/none", Some("/front.php")),
    ("*.php", "/none", Some("/front.php")),
    ("*.php", "/none", Some("/a.php/info")),
    ("/page.html", "/none", Some("/page.html")),
    ("*.html", "/folder/", Some("/page.html")),
    ("/page.html", "/page.html.gz", None),
    ("*.html", "/page.html.%67z", None),
    ("/page.html", "/page.html.sha256", None),
    ("*.html", "/%70age.html.sha256", None),
    ("/page.html", "/x/../page.html.sha256", Some("/front.php")),
    ("/page.html", "/page.html.gz.sha256", None),
    ("*.html", "/page.html.%67z.sha256", None),
    ("*.pl", "/cgi/run.pl/info", None),
    ("*.pl", "/cgi/d/run.pl/a/b", None),
    ("*.pl", "/app/run.pl/", None),
    ("*.pl", "/none", Some("/cgi/run.pl/x")),
    ("/cgi/front", "/none", Some("/cgi/front/x")),
];

/// A rule, and what it answers instead.
fn rules() -> Vec<(&'static str, SiteSettings, u16)> {
    let plain = || settings(None);
    let networks = AccessNetworks::new(&["198.51.100.0/24".parse().unwrap()], &[]);
    let access = |access| SiteSettings { access: Some(access), ..plain() };
    // Each request has it.
    let words = FieldRules([FieldList::parse("Host", "a").unwrap()].into());
    let denied = ["/sub", "/prog", "/a.php", "/front.php", "/page.html", "/404.html", "*.pl", "front"];
    vec![
        ("allow", access(AccessRules { networks, ..AccessRules::default() }), 403),
        ("field-rules", access(AccessRules { fields: Some(words.into()), ..AccessRules::default() }), 403),
        ("signed", access(super::links::by_link()), 403),
        ("auth", access(AccessRules { users: Some(Circle::of("bees")), ..AccessRules::default() }), 401),
        ("methods", SiteSettings { methods: Some(Methods::new([Method::Options], true)), ..plain() }, 405),
        ("gone", SiteSettings { gone: true, ..plain() }, 410),
        ("redirect", SiteSettings { redirect: Some(Redirect::parse("/elsewhere").unwrap()), ..plain() }, 308),
        (
            "deny",
            SiteSettings {
                deny: denied.map(|rule| PathRule::parse(rule).unwrap()).into_iter().collect(),
                ..plain()
            },
            404,
        ),
    ]
}

#[test]
fn no_other_path_leads_past_a_rule() {
    for (place, target, fallback) in WAYS {
        let mut open = world_of(place, settings(None), fallback);
        let answered =
            [status, status_over_http_2, status_of_redirected].map(|ask| ask(&mut open, "GET", target));
        assert!(answered == [200; 3] || answered == [0; 3], "{place} {target}: {answered:?}");
        for (key, rules, expected) in rules() {
            for method in ["GET", "HEAD"] {
                let mut world = world_of(place, rules.clone(), fallback);
                let asked = [status, status_over_http_2, status_of_redirected]
                    .map(|ask| ask(&mut world, method, target));
                assert_eq!(asked, [expected; 3], "{key} of {place}: {method} {target} with {fallback:?}");
            }
        }
        let access = AccessRules { limit: Some("1/h".parse().unwrap()), ..AccessRules::default() };
        let limited = SiteSettings { access: Some(access), ..settings(None) };
        for ask in [status, status_over_http_2, status_of_redirected] {
            let mut world = world_of(place, limited.clone(), fallback);
            let asked = [(); 2].map(|()| ask(&mut world, "GET", target));
            assert_eq!(asked, [answered[0], 429], "limit of {place}: {target} with {fallback:?}");
        }
    }
}

/// What may answer as well without it.
#[test]
fn a_guarded_copy_or_page_answers_for_no_other_path() {
    let copied = |bytes: &[u8]| {
        let reply = reply(bytes);
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
    };
    let ask = "Host: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let page = |key: &str, rules: SiteSettings, place: &str| {
        let mut world =
            world_of_rules(SiteSettings { own_missing_page: true, ..settings(None) }, place, rules);
        for path in ["/page.html", "/none"] {
            let expected = if path == "/none" { (404, "/404.html") } else { (200, "/page.html.gz") };
            for _ in 0..2 {
                let (status, body) = copied(&world.ask(format!("GET {path} HTTP/1.1\r\n{ask}")));
                let is_guarded = match place {
                    "/404.html" => path == "/none",
                    _ => path == "/page.html",
                };
                let is_sent = body == expected.1;
                assert_eq!(
                    (status, is_sent),
                    (expected.0, !is_guarded || key == "none"),
                    "{key} of {place}: {body}"
                );
            }
        }
    };
    for place in ["/404.html", "/page.html.gz", "*.gz", "*z"] {
        page("none", settings(None), place);
        rules().into_iter().for_each(|(key, rules, _)| page(key, rules, place));
    }
}
