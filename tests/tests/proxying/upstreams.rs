//! Servers with a name: how requests are spread, what waits, what is tried again, and what is told of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use flash_tests::{PROCESSES, Server, admin, arch_settings, wait_for};
use serde_json::Value;
use tempfile::TempDir;

use super::backend::{Backend, Manner};
use super::folder;

/// A server with the upstream `app`.
struct Site {
    server: Server,
    folder: TempDir,
}

impl Site {
    fn start(arch: &str, servers: &str, rules: &str) -> Self {
        let folder = folder();
        let text = format!(
            "listen = '127.0.0.1:0'\nadmin = 'unix:admin'\naccess-log = 'access.log'\nlog-format = 'json'\n{}\
             [upstream.app]\nservers = {servers}\n{rules}\n\
             [upstream.unused]\nservers = 'http://127.0.0.1:1'\n\
             [site.'*']\nproxy = 'app'\n'/other' = {{ strip-prefix = '/other' }}\n",
            arch_settings(arch)
        );
        let config = folder.path().join("flash.toml");
        fs::write(&config, text).expect("the file is written");
        Self { server: Server::start_configured(&config, &[]), folder }
    }

    fn status(&self) -> u16 {
        self.server.get("/a").status
    }

    /// The port that answers.
    fn port(&self, path: &str, fields: &str) -> u16 {
        self.answer(path, fields).0
    }

    /// The same with the cookie that is set.
    fn answer(&self, path: &str, fields: &str) -> (u16, Option<String>) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        let reply = flash_tests::reply::only(&self.server.raw(request.as_bytes()));
        let cookie = reply.field("Set-Cookie").map(str::to_owned);
        (String::from_utf8(reply.body).expect("text").parse().expect("a port"), cookie)
    }

    /// What is counted of a server.
    fn counted(&self, server: &Backend, what: &str) -> f64 {
        let (_, text) = admin::ask(&self.folder.path().join("admin"), "GET", "/metrics");
        let of = format!("program=\"{}\"", server.url());
        let line = text
            .lines()
            .find(|line| line.starts_with(what) && line.contains(&of) && line.contains("kind=\"upstream\""));
        let line = line.unwrap_or_else(|| panic!("{what} {of} in {text}"));
        line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number")
    }

    fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("access.log")).expect("a log");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn table(servers: &[(&Backend, &str)]) -> String {
    let servers = servers.iter().map(|(server, terms)| format!("'{}' = {{ {terms} }}", server.url()));
    format!("{{ {} }}", servers.collect::<Vec<_>>().join(", "))
}

#[test]
fn weights_hold_for_all_places_together() {
    let (heavy, light) = (Backend::start(), Backend::start());
    for arch in ["amped", "uring", "sped", PROCESSES] {
        let site =
            Site::start(arch, &table(&[(&heavy, "weight = 3"), (&light, "")]), "balance = 'round-robin'");
        let before = (heavy.asked(), light.asked());
        for path in ["/a", "/other/a"].into_iter().cycle().take(80) {
            site.port(path, "");
        }
        assert_eq!((heavy.asked() - before.0, light.asked() - before.1), (60, 20), "{arch}");
        assert_eq!(site.counted(&heavy, "flash_program_requests_total"), 60.0, "{arch}");
        site.server.stop();
    }
}

#[test]
fn a_backup_is_asked_if_no_other_is_there() {
    let (server, backup) = (Backend::start(), Backend::start());
    let site = Site::start("amped", &table(&[(&server, ""), (&backup, "backup = true")]), "slow-start = 0");
    let port = server.address().port();
    assert!((0..20).all(|_| site.port("/a", "") == port));
    let address = server.stop();
    assert!((0..20).all(|_| site.port("/a", "") == backup.address().port()));
    let _server = Backend::again(address);
    wait_for("it is asked again", || site.port("/a", "") == port);
    assert!((0..20).all(|_| site.port("/a", "") == port));
}

#[test]
fn equal_cookies_lead_to_the_same_server() {
    let servers = [Backend::start(), Backend::start(), Backend::start()];
    let all = servers.each_ref().map(|server| (server, ""));
    let site = Site::start("amped", &table(&all), "hash = 'cookie:sid'");
    let ports = || -> Vec<u16> {
        (0..60).map(|number| site.port("/a", &format!("Cookie: a=b; sid={number}\r\n"))).collect()
    };
    let before = ports();
    assert_eq!(ports(), before);
    let [gone, left @ ..] = servers;
    let gone = gone.stop().port();
    assert!(
        left.iter().map(|server| server.address().port()).chain([gone]).all(|port| before.contains(&port))
    );
    let after = ports();
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || *before == gone && *after != gone, "{before} {after}");
    }
}

/// Two servers, one after the other, share a key, and name their servers in another order.
#[test]
fn a_session_stays_with_its_server_as_long_as_that_is_there() {
    let keys = tempfile::tempdir().expect("a folder");
    let key = keys.path().join("sticky.key");
    fs::write(&key, "0123456789abcdef\n").expect("a key");
    let rules = format!("sticky = {{ cookie = 'srv', key = {{ file = '{}' }}, life = '8h' }}", key.display());
    for arch in ["amped", "uring", "sped", PROCESSES] {
        let servers = [Backend::start(), Backend::start(), Backend::start()];
        let [one, two, three] = servers.each_ref().map(|server| (server, ""));
        let site = Site::start(arch, &table(&[one, two, three]), &rules);
        let (port, set) = site.answer("/a", "Cookie: srv=0.0.0\r\n");
        let set = set.expect("a cookie, as a forged one is none");
        assert!(set.ends_with("; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax"), "{set}");
        let cookie = format!("Cookie: a=b; {}\r\n", set.split(';').next().expect("a value"));
        for site in [site, Site::start(arch, &table(&[three, one, two]), &rules)] {
            for _ in 0..10 {
                assert_eq!(site.answer("/a", &cookie), (port, None), "{arch}");
            }
            site.server.stop();
        }
        let site = Site::start(arch, &table(&[two, three, one]), &rules);
        let (gone, _left): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| server.address().port() == port);
        gone.into_iter().for_each(|server| _ = server.stop());
        let (next, set) = site.answer("/a", &cookie);
        let set = set.expect("another cookie");
        assert_ne!(next, port, "{arch}");
        let cookie = format!("Cookie: {}\r\n", set.split(';').next().expect("a value"));
        assert!((0..10).all(|_| site.answer("/a", &cookie) == (next, None)), "{arch}");
        site.server.stop();
    }
}

#[test]
fn requests_wait_for_a_server_that_may_have_so_many() {
    let backend = Backend::start();
    let site = Site::start("amped", &table(&[(&backend, "max-connections = 2")]), "queue-max = 4");
    backend.set(Manner::Holds);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6).map(|_| scope.spawn(|| site.status())).collect();
        wait_for("four wait", || site.counted(&backend, "flash_program_queue{") == 4.0);
        wait_for("two are asked", || backend.asked() == 2);
        assert_eq!((site.status(), backend.asked()), (503, 2), "as many wait as may");
        backend.set(Manner::Answers);
        assert!(clients.into_iter().all(|client| client.join().expect("it ends") == 200));
    });
    assert_eq!((backend.most(), backend.asked()), (2, 6));
    assert_eq!(site.counted(&backend, "flash_program_queue{"), 0.0);
    assert_eq!(site.counted(&backend, "flash_program_refusals_total"), 1.0);
    assert!(site.counted(&backend, "flash_program_queue_seconds_sum") > 0.0);
    wait_for("the log has all", || site.log().len() == 7);
    let count = |field: &str| site.log().iter().filter(|line| line[field].as_u64() > Some(0)).count();
    assert_eq!((count("program_queue_us"), count("queue_us")), (4, 0), "no helper was waited for");
    let said = site.server.stop();
    assert!(said.contains("upstream app: as many requests wait as may: requests get 503"), "{said}");
}

#[test]
fn a_request_that_waits_for_long_is_refused() {
    let backend = Backend::start();
    let site = Site::start("amped", &table(&[(&backend, "max-connections = 1")]), "queue-wait = '1s'");
    backend.set(Manner::Holds);
    thread::scope(|scope| {
        let first = scope.spawn(|| site.status());
        wait_for("it is asked", || backend.asked() == 1);
        assert_eq!(site.status(), 503);
        backend.set(Manner::Answers);
        assert_eq!(first.join().expect("it ends"), 200);
    });
    assert_eq!(backend.asked(), 1);
}

#[test]
fn a_safe_request_is_given_to_another_server_and_a_failing_application_is_not_buried() {
    let (one, other) = (Backend::start(), Backend::start());
    let site = Site::start("amped", &table(&[(&one, ""), (&other, "")]), "balance = 'round-robin'");
    one.set(Manner::Closes);
    assert!((0..10).all(|_| site.status() == 200));
    let post =
        || site.server.raw(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let statuses: Vec<u16> = (0..4).map(|_| flash_tests::reply::only(&post()).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 2, "{statuses:?}: each other one");
    assert_eq!(site.counted(&one, "flash_program_retries_total"), 5.0);
    assert_eq!(site.counted(&one, "flash_program_broken_total"), 7.0);
    other.set(Manner::Closes);
    let before = one.asked() + other.asked();
    assert!((0..200).all(|_| site.status() == 502));
    let asked = one.asked() + other.asked() - before;
    // A tenth, ten that were saved, and two whose connections may just have been idle for too long.
    assert!((200..=232).contains(&asked), "{asked}");
    let said = site.server.stop();
    assert!(said.contains("GET /a HTTP/1.1"), "{said}");
}

#[test]
fn a_server_that_fails_its_check_is_not_asked() {
    let (one, other) = (Backend::start(), Backend::start());
    let check = "check = { path = '/healthz', every = '1s' }\nbalance = 'round-robin'\nslow-start = 0";
    for arch in ["amped", PROCESSES] {
        one.set_sick(false);
        let site = Site::start(arch, &table(&[(&one, ""), (&other, "")]), check);
        let is_asked = || {
            let before = one.asked();
            (0..4).for_each(|_| assert_eq!(site.status(), 200));
            one.asked() > before
        };
        assert!(is_asked());
        one.set_sick(true);
        wait_for("it is not asked", || !is_asked());
        assert_eq!(site.counted(&one, "flash_program_unreachable"), 1.0, "{arch}");
        one.set_sick(false);
        wait_for("it is asked again", is_asked);
        assert_eq!(site.counted(&one, "flash_program_unreachable"), 0.0, "{arch}");
        assert!(one.checks() > 2 && other.checks() > 2, "{arch}");
        let said = site.server.stop();
        assert!(said.contains("fails its check: has answered 503; it gets no requests"), "{said}");
        assert!(said.contains("passes its check again"), "{said}");
    }
}

#[test]
fn a_silent_server_has_its_own_time() {
    let backend = Backend::start();
    let site = Site::start("amped", &table(&[(&backend, "")]), "first-byte-timeout = '1s'");
    backend.set(Manner::Holds);
    assert_eq!(site.status(), 504);
    assert_eq!(site.counted(&backend, "flash_program_timeouts_total"), 1.0);
    backend.set(Manner::Answers);
    assert_eq!(site.status(), 200);
    assert!(site.counted(&backend, "flash_program_first_byte_seconds_sum") > 0.0);
    assert!(site.counted(&backend, "flash_program_duration_seconds_sum") > 0.0);
    let said = site.server.stop();
    assert!(said.contains("GET /a HTTP/1.1: its program: has been silent for too long"), "{said}");
}

/// The time counts from when a server is asked, and not from when a request begins to wait for one.
#[test]
fn a_request_that_waits_has_its_time_when_it_is_asked() {
    let backend = Backend::start();
    let site =
        Site::start("amped", &table(&[(&backend, "max-connections = 1")]), "first-byte-timeout = '1s'");
    backend.set(Manner::Holds);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2).map(|_| scope.spawn(|| site.status())).collect();
        assert!(clients.into_iter().all(|client| client.join().expect("it ends") == 504));
    });
    assert_eq!(backend.asked(), 2);
}

#[test]
fn an_upstream_stays_through_a_reload_and_shows_on_the_status_page() {
    let backend = Backend::start();
    let site = Site::start("amped", &table(&[(&backend, "max-connections = 7")]), "");
    (0..5).for_each(|_| assert_eq!(site.status(), 200));
    let config: PathBuf = site.folder.path().join("flash.toml");
    let text = fs::read_to_string(&config).expect("it is there").replace("'/other'", "'/another'");
    fs::write(&config, text).expect("the file is written");
    site.server.signal(rustix::process::Signal::HUP);
    wait_for("the reload", || site.server.said().contains("configuration 2 serves"));
    assert_eq!(site.status(), 200);
    assert_eq!(site.counted(&backend, "flash_program_requests_total"), 6.0);
    let explained = Command::new(flash_tests::program())
        .args(["explain", "http://a/another/b", "--config"])
        .arg(&config)
        .output()
        .expect("flash runs");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    let rule = format!("upstream = app servers={},max-connections=7", backend.url());
    assert!(explained.contains(&rule) && !explained.contains("unused"), "{explained}");
    let (_, page) = admin::ask(&site.folder.path().join("admin"), "GET", "/");
    assert!(page.contains(&format!("upstream {}", backend.url())), "{page}");
}
