//! The rules of what answers, beside those of the path: log-ins of both, limits that count once, and what stays as it was.

use std::sync::atomic::{AtomicBool, Ordering};

use flash_http::basic::Credentials;

use super::ways_around::{world_of, world_of_rules};
use super::*;
use crate::clients::login::{Check, CheckKey, Known, Users};
use crate::site::SiteSettings;
use crate::site::access::AccessRules;
use crate::site::redirect::Redirect;
use crate::testing::H2Client;

/// Those who know a password, whatever their names. If it remembers, it is asked once.
#[derive(Debug)]
pub(super) struct Circle {
    password: &'static str,
    challenge: String,
    remembers: bool,
    remembered: Arc<AtomicBool>,
}

#[derive(Debug)]
struct CheckOf {
    is_right: bool,
    remembered: Arc<AtomicBool>,
}

impl Circle {
    pub(super) fn of(password: &'static str) -> Arc<dyn Users> {
        Arc::new(Self::new(password, true))
    }

    fn new(password: &'static str, remembers: bool) -> Self {
        let challenge = format!("Basic realm=\"{password}\"");
        Self { password, challenge, remembers, remembered: Arc::default() }
    }
}

impl Users for Circle {
    fn challenge(&self) -> &[u8] {
        self.challenge.as_bytes()
    }

    fn ask(&self, credentials: &Credentials, _: u64) -> Known {
        let is_right = self.password.contains(&*String::from_utf8_lossy(credentials.password()));
        match is_right && self.remembers && self.remembered.load(Ordering::Relaxed) {
            true => Known::Right,
            false => {
                Known::Unchecked(Box::new(CheckOf { is_right, remembered: Arc::clone(&self.remembered) }))
            }
        }
    }
}

impl Check for CheckOf {
    fn key(&self) -> CheckKey {
        CheckKey::default()
    }

    fn run(&self, _: u64) -> bool {
        self.remembered.fetch_or(self.is_right, Ordering::Relaxed);
        self.is_right
    }
}

fn for_circle(circle: Circle) -> SiteSettings {
    let access = AccessRules { users: Some(Arc::new(circle)), ..AccessRules::default() };
    SiteSettings { access: Some(access), access_log: logged(), ..SiteSettings::default() }
}

/// `bob` with the password `bee`.
const BEE: &str = "Authorization: Basic Ym9iOmJlZQ==\r\n";
/// With the password `wasp`.
const WASP: &str = "Authorization: Basic Ym9iOndhc3A=\r\n";

fn ask(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// All checks are made, and all jobs done.
fn finish(world: &mut World, client: &mut Client) -> usize {
    let mut checks = 0;
    loop {
        if client.check.is_some() {
            world.check(client);
            checks += 1;
        } else if client.pending.is_some() {
            world.complete(client);
        } else {
            return checks;
        }
    }
}

#[test]
fn both_log_ins_have_to_be_right_and_each_is_checked_once() {
    // Whoever knows `bee` is of the first circle, and whoever knows `wasp` of the second. Both know the last one's.
    for (site, place, fields, status, realm, checks) in [
        ("bee", "beewasp", BEE, 200, None, 2),
        ("beewasp", "bee", BEE, 200, None, 2),
        ("beewasp", "wasp", BEE, 401, Some("Basic realm=\"wasp\""), 2),
        ("wasp", "bee", BEE, 401, Some("Basic realm=\"wasp\""), 1),
        ("bee", "wasp", WASP, 401, Some("Basic realm=\"bee\""), 1),
        ("bee", "wasp", "", 401, Some("Basic realm=\"bee\""), 0),
    ] {
        for remembers in [true, false] {
            for cached in [true, false] {
                let of = |password| for_circle(Circle::new(password, remembers));
                let mut world = world_of_rules(of(site), "/sub/index.html", of(place));
                world.jobs = Jobs::Later;
                if cached {
                    let mut client = world.connect();
                    world.receive(&mut client, ask("/sub/", BEE).as_bytes());
                    finish(&mut world, &mut client);
                }
                let mut client = world.connect();
                world.receive(&mut client, ask("/sub/", fields).as_bytes());
                let seen = finish(&mut world, &mut client);
                let reply = reply(&client.got);
                let what = format!("{site} and {place}: {fields} {remembers} {cached}");
                assert_eq!((reply.status, reply.field("WWW-Authenticate")), (status, realm), "{what}");
                assert!(seen == checks || (remembers && cached && seen < checks), "{what}: {seen} checks");
                let user = world.tally.records.last().map(|record| record.user.len());
                assert_eq!(user, Some(if status == 200 || checks == 2 { 3 } else { 0 }), "{what}");
            }
        }
    }
}

#[test]
fn a_log_in_of_what_answers_is_enough_to_know_the_user_and_to_keep_caches_out() {
    let mut world = world_of("*.php", for_circle(Circle::new("bee", false)), Some("/front.php"));
    let mut client = world.connect();
    world.receive(&mut client, ask("/none", BEE).as_bytes());
    finish(&mut world, &mut client);
    let variables = Arc::clone(&client.program.as_ref().expect("it runs").begin.variables);
    assert_eq!(variables.get(b"REMOTE_USER"), Some(&b"bob"[..]));
    assert_eq!(variables.get(b"HTTP_AUTHORIZATION"), None);
    for (fields, status) in [("", 200), ("Range: bytes=0-1\r\n", 206), ("If-None-Match: *\r\n", 304)] {
        let mut world = world_of("/sub/index.html", for_circle(Circle::new("bee", false)), None);
        for _ in 0..3 {
            let mut client = world.connect();
            world.receive(&mut client, ask("/sub/", &format!("{BEE}{fields}")).as_bytes());
            finish(&mut world, &mut client);
            let reply = reply(&client.got);
            assert_eq!((reply.status, reply.field("Cache-Control")), (status, Some("private")), "{fields}");
        }
        assert_eq!(reply(&world.ask(get("/page.html"))).field("Cache-Control"), None);
    }
}

#[test]
fn a_limit_counts_a_request_once_and_each_limit_counts() {
    let of = |rate: &str| AccessRules { limit: Some(rate.parse().unwrap()), ..AccessRules::default() };
    let settings = |rate: &str| SiteSettings { access: Some(of(rate)), ..SiteSettings::default() };
    let asked = "Content-Length: 3\r\n";
    for (site, place, admitted) in [
        ("1/h burst 4", "1/h burst 4", 4),
        ("1/h burst 4", "1/h burst 2", 2),
        ("1/h burst 2", "1/h burst 4", 2),
    ] {
        for (fields, body) in [("", ""), (asked, "abc")] {
            for later in [Jobs::AtOnce, Jobs::Later] {
                let mut world = world_of_rules(settings(site), "/sub/index.html", settings(place));
                world.jobs = later;
                let statuses: Vec<u16> = (0..6)
                    .map(|_| {
                        let mut client = world.connect();
                        world.receive(&mut client, (ask("/sub/", fields) + body).as_bytes());
                        finish(&mut world, &mut client);
                        reply(&client.got).status
                    })
                    .collect();
                let expected: Vec<u16> =
                    (0..6).map(|number| if number < admitted { 200 } else { 429 }).collect();
                assert_eq!(statuses, expected, "{site} and {place}: {fields}{later:?}");
            }
        }
    }
}

/// A redirection of a file to the one name that it is to have.
#[test]
fn a_name_that_is_redirected_to_is_not_sent_elsewhere() {
    for (place, to, target, fallback, location) in [
        ("/sub/index.html", "/sub/", "/sub/", None, None),
        ("/sub/index.html", "/sub", "/sub/?a=b", None, None),
        ("/sub/index.html", "http://a/sub/", "/sub/", None, None),
        ("/sub/index.html", "http://A:80/sub/#top", "/sub/", None, None),
        ("/sub/index.html", "http://{host}/sub/", "/sub/", None, None),
        ("/sub/index.html", "https://a/sub/", "/sub/", None, Some("https://a/sub/")),
        ("/sub/index.html", "http://b/sub/", "/sub/", None, Some("http://b/sub/")),
        ("/sub/index.html", "/other{rest}", "/sub/", None, Some("/other")),
        ("*.html", "https://b{path}", "/sub/?q", None, Some("https://b/sub/?q")),
        ("/page.html", "/", "/none", Some("/page.html"), None),
        ("/page.html", "{rest}", "/none", Some("/page.html"), None),
        ("/page.html", "/start", "/none", Some("/page.html"), Some("/start")),
        ("*.php", "/", "/a.php/info", None, Some("/")),
    ] {
        let prefix = place.strip_prefix('*').map_or(place, |_| "");
        let redirect = Some(Redirect::parse(to).unwrap().within(prefix.as_bytes()));
        let rules = SiteSettings { redirect, ..SiteSettings::default() };
        let mut world = world_of(place, rules, fallback);
        let reply = reply(&world.ask(get(target)));
        let expected = (location.map_or(200, |_| 308), location);
        assert_eq!((reply.status, reply.field("Location")), expected, "{place} to {to}: {target}");
    }
}

#[test]
fn bodies_have_the_smaller_limit() {
    let rules = SiteSettings { body_bytes_max: 5, ..SiteSettings::default() };
    for (length, body) in
        [("Content-Length: 9", "123456789"), ("Transfer-Encoding: chunked", "9\r\n123456789\r\n0\r\n\r\n")]
    {
        let mut world = world_of("*.php", rules.clone(), None);
        let bytes = world.ask(format!("POST /a.php/info HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n{body}"));
        assert_eq!(reply(&bytes).status, 413, "{length}");
    }
    for length in [vec![("content-length", "9")], vec![]] {
        let mut world = world_of("*.php", rules.clone(), None);
        let mut client = H2Client::connect(&mut world, 1 << 20);
        client.send(&mut world, &H2Client::request(1, "POST", "/a.php/info", &length, 0));
        client.send(&mut world, &H2Client::data(1, b"123456789", flash_h2::frame::flag::END_STREAM));
        assert_eq!(client.answer(1).status(), "413", "{length:?}");
    }
}

#[test]
fn what_is_looser_where_it_lies_is_as_strict_as_its_path() {
    let rules = for_circle(Circle::new("bee", true));
    let mut world = world_of_rules(rules, "/sub/index.html", SiteSettings::default());
    let mut client = world.connect();
    world.receive(&mut client, (ask("/sub/", "") + &ask("/sub/index.html", "")).as_bytes());
    assert_eq!(statuses(&client.got), [401, 200]);
}

/// A place that shares nothing but its names with the site costs no second look-up.
#[test]
fn an_answer_from_the_caches_stays_one() {
    let mut world = world_of("*.html", SiteSettings::default(), None);
    for _ in 0..5 {
        assert_eq!(statuses(&world.ask(get("/sub/"))), [200]);
    }
    assert_eq!(world.disk.done.get("find"), Some(&1));
}
