//! The fallback: who gets it, in place of what, and what it costs.

use super::programs::{ANSWER, manner, routes};
use super::*;
use crate::cache::{CacheLimits, PathCache};
use crate::path::SitePath;
use crate::site::fallback::{Answers, Fallback};
use crate::site::path_rules::{PathRule, PathRules};
use crate::testing::{STDOUT, body_of, end_record, record};
use crate::upstream::UpstreamProtocol;

fn fallback(path: &str, answers: Answers) -> Fallback {
    Fallback::new(SitePath::of_decoded(path.as_bytes()).unwrap(), answers)
}

/// A site with this fallback, and without listings.
fn world_of(fallback: Fallback) -> World {
    let mut world = world();
    world.site().routes = Some(routes().into());
    world.rules().list = false;
    world.rules().fallback = Some(fallback);
    world.disk.put("/app.html", *b"the app");
    world.disk.put("/dotted.d/file", *b"");
    world.disk.put_folder("/dotted.d/", &[1]);
    world.disk.put_script("/index.php");
    world
}

fn front() -> World {
    world_of(fallback("/index.php", Answers::All))
}

/// What the front controller is told, if it is asked.
fn told(world: &mut World, request: &str) -> Option<Vec<u8>> {
    let mut client = world.connect();
    world.receive(&mut client, request.as_bytes());
    client.begin.is_some().then(|| {
        world.begin(&mut client, manner(UpstreamProtocol::FastCgi));
        client.program.take().expect("it has begun").told
    })
}

fn status(world: &mut World, request: &str) -> u16 {
    reply(&world.ask(request)).status
}

fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_front_controller_gets_each_request_that_leads_nowhere_with_its_own_target() {
    for (method, path) in [
        ("GET", "/made/up?a=b"),
        ("GET", "/users/jane.doe?a=b"),
        ("GET", "/index.phpx?a=b"),
        ("GET", "/none.php?a=b"),
        ("GET", "/folder/?a=b"),
        ("HEAD", "/made/up?a=b"),
        ("POST", "/made/up?a=b"),
        ("PUT", "/made%20up?a=b"),
        ("DELETE", "/folder/?a=b"),
        ("POST", "/folder?a=b"),
        ("OPTIONS", "/made/up?a=b"),
        ("PATCH", "//made/./up?a=b"),
    ] {
        let mut world = front();
        // The second time the caches answer.
        for _ in 0..3 {
            let told =
                told(&mut world, &request(method, path, "")).unwrap_or_else(|| panic!("{method} {path}"));
            let has = |pair: &str| memchr::memmem::find(&told, pair.as_bytes()).is_some();
            for pair in [
                "SCRIPT_FILENAME/srv/index.php",
                "SCRIPT_NAME/index.php",
                "QUERY_STRINGa=b",
                &format!("REQUEST_METHOD{method}"),
                &format!("REQUEST_URI{path}"),
            ] {
                assert!(has(pair), "{method} {path}: {pair} in {}", told.escape_ascii());
            }
            assert!(!has("PATH_INFO"), "{method} {path}");
        }
    }
}

#[test]
fn a_front_controller_gets_bodies() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (fields, body) in [("Content-Length: 5\r\n", "abcde"), (chunked, "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")]
    {
        for method in ["POST", "GET"] {
            let told = told(&mut front(), &(request(method, "/made.up", fields) + body)).expect(method);
            assert_eq!(body_of(&told), Some(b"abcde".to_vec()), "{method} {fields}");
        }
    }
}

#[test]
fn what_is_there_or_refused_never_reaches_the_front_controller() {
    for (method, path, expected) in [
        ("GET", "/small.txt", 200),
        ("POST", "/small.txt", 405),
        ("GET", "/closed", 403),
        ("GET", "/folder", 301),
        ("GET", "/.env", 404),
        ("POST", "/.git/config", 404),
        ("GET", "/secret/x", 404),
        ("POST", "/secret", 404),
        ("GET", "/config.php.bak", 404),
        ("POST", "/config.php.bak", 405),
        ("GET", "/secret%2fx", 404),
        ("GET", "/a%2f.env", 404),
        ("GET", "/a%00b", 400),
        ("TRACE", "/made/up", 405),
    ] {
        let backups: PathRules = [PathRule::Suffix(b".bak".as_slice().into())].into_iter().collect();
        let mut world = world_of(fallback("/index.php", Answers::All).except(backups));
        world.rules().deny = [PathRule::parse("/secret").unwrap()].into_iter().collect();
        for _ in 0..3 {
            assert_eq!(status(&mut world, &request(method, path, "")), expected, "{method} {path}");
        }
    }
}

#[test]
fn a_listing_comes_before_the_fallback() {
    let mut world = front();
    world.rules().list = true;
    assert_eq!(status(&mut world, &get("/folder/")), 200);
    assert!(told(&mut world, &get("/none/")).is_some());
}

/// As when a deploy has taken it away, or made it something else.
#[test]
fn a_fallback_that_is_no_file_is_a_404() {
    for path in ["/gone.php", "/folder", "/gone.html", "/.hidden"] {
        let mut world = world_of(fallback(path, Answers::All));
        world.rules().list = true;
        for _ in 0..3 {
            assert_eq!(status(&mut world, &get("/none")), 404, "{path}");
        }
    }
    let mut world = world_of(fallback("/gone.html", Answers::All));
    world.rules().own_missing_page = true;
    world.disk.put("/404.html", *b"lost");
    let reply = reply(&world.ask(get("/none")));
    assert_eq!((reply.status, &*reply.body), (404, &b"lost"[..]));
}

#[test]
fn without_caches_a_fallback_that_is_gone_is_looked_for_once() {
    let mut world = world_of(fallback("/gone.php", Answers::All));
    world.rules().own_missing_page = true;
    let limits =
        CacheLimits { entries_max: 0, bytes_max: 0, descriptors_max: 0, threads: 1, local_caches: 1 };
    world.server.paths = PathCache::new(limits).into();
    world.local = Some(LocalCache::new(0));
    assert_eq!(status(&mut world, &get("/none")), 404);
    assert_eq!(world.disk.done["find"], 3, "the path, its fallback, and the page for missing names");
}

#[test]
fn a_fallback_whose_disk_fails_is_an_error() {
    let mut world = front();
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    world.receive(&mut client, get("/none").as_bytes());
    assert_eq!(world.complete(&mut client), Waits::ForJob, "it is looked for");
    world.fail(&mut client, Failure::Overloaded);
    assert_eq!(statuses(&client.got), [503]);
}

#[test]
fn a_program_below_a_prefix_can_be_the_fallback() {
    let mut world = world_of(fallback("/cgi/front", Answers::All));
    let mut client = world.connect();
    world.receive(&mut client, request("POST", "/made/up?x", "").as_bytes());
    let (_, begin) = client.begin.take().expect("it is asked");
    assert_eq!((begin.route, begin.path.as_bytes()), (0, &b"/cgi/front"[..]));
    assert_eq!(begin.variables.get(b"REQUEST_URI"), Some(&b"/made/up?x"[..]));
}

#[test]
fn a_file_can_be_the_fallback_of_all() {
    let mut world = world_of(fallback("/app.html", Answers::All));
    for path in ["/made/up", "/made.up", "/folder/"] {
        let reply = reply(&world.ask(get(path)));
        assert_eq!((reply.status, &*reply.body), (200, &b"the app"[..]), "{path}");
    }
    assert_eq!(status(&mut world, &request("POST", "/made/up", "")), 405);
    assert_eq!(status(&mut world, &request("OPTIONS", "/made/up", "")), 204);
}

#[test]
fn a_single_page_application_answers_for_pages_and_not_for_files() {
    const HTML: &str = "Accept: text/html,*/*;q=0.8\r\n";
    for (path, fields, expected) in [
        ("/made/up", "", 200),
        ("/made.d/up/", "", 200),
        ("/folder/", "", 200),
        ("/dotted.d/", "", 200),
        ("/users/jane.doe", HTML, 200),
        ("/users/jane.doe", "", 404),
        ("/users/jane.doe/", "", 404),
        ("/missing.js", "Accept: */*\r\n", 404),
        ("/small.txt", HTML, 200),
        ("/closed", HTML, 403),
        ("/folder", HTML, 301),
        ("/.hidden", HTML, 404),
    ] {
        let mut world = world_of(fallback("/app.html", Answers::Pages));
        for _ in 0..3 {
            assert_eq!(status(&mut world, &request("GET", path, fields)), expected, "{path} {fields}");
        }
    }
    let mut world = world_of(fallback("/app.html", Answers::Pages).spares_users(true));
    assert_eq!(status(&mut world, &get("/~jane/none")), 404, "a user's folder is another site");
}

/// Beyond the look-ups of the path itself, which are those of any missing name.
#[test]
fn a_hot_fallback_asks_nobody() {
    for fallback in [fallback("/index.php", Answers::All), fallback("/app.html", Answers::Pages)] {
        let mut world = world_of(fallback);
        for _ in 0..50 {
            let mut client = world.connect();
            world.receive(&mut client, get("/made/up").as_bytes());
            assert!(client.pending.is_none());
        }
        assert_eq!(world.disk.done["find"], 3, "the path twice, and its fallback");
    }
}

#[test]
fn found_apart_the_fallback_is_a_job_too() {
    let mut world = front();
    world.local = None;
    for _ in 0..3 {
        let mut client = world.connect();
        world.receive(&mut client, get("/made/up").as_bytes());
        world.begin(&mut client, manner(UpstreamProtocol::FastCgi));
        world.hear(&mut client, |program| program.say([record(STDOUT, ANSWER), end_record()].concat()));
        assert_eq!(&*reply(&client.got).body, b"hello");
    }
    assert_eq!(world.disk.done["find"], 3);
}

#[test]
fn rfc9110_12_5_5_a_page_that_comes_by_accept_alone_says_so() {
    const HTML: &str = "Accept: text/html\r\n";
    for (path, accept, expected) in [
        ("/none.js", HTML, (200, Some("Accept-Encoding, Accept"))),
        ("/none.js", "", (404, Some("Accept"))),
        ("/none", HTML, (200, Some("Accept-Encoding"))),
        ("/none", "", (200, Some("Accept-Encoding"))),
        ("/small.txt", HTML, (200, Some("Accept-Encoding"))),
        ("/dotted.d", "", (301, None)),
    ] {
        for own_page in [false, true] {
            let mut world = world_of(fallback("/app.html", Answers::Pages));
            world.disk.put("/404.html", *b"none");
            world.rules().own_missing_page = own_page;
            // The second time the caches answer.
            for _ in 0..2 {
                let reply = reply(&world.ask(request("GET", path, accept)));
                assert_eq!((reply.status, reply.field("Vary")), expected, "{path} {accept}");
            }
        }
    }
    let mut front = front();
    assert_eq!(reply(&front.ask(get("/small.txt"))).field("Vary"), Some("Accept-Encoding"));
}
