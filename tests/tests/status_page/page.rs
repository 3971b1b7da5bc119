//! The page and its events, under each architecture.

use std::thread;

use flash_tests::{ARCHITECTURES, scripts, wait_for};

use crate::setup::Setup;

#[test]
fn each_architecture_has_a_page_and_events() {
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            scope.spawn(move || {
                let arch = arch.split(' ').next().expect("a name");
                let setup = Setup::start(arch, &[]);
                let (head, page) = setup.ask("/status");
                assert!(head.starts_with("HTTP/1.1 200"), "{arch}: {head}");
                assert!(head.contains("\r\nContent-Security-Policy: default-src 'none'; "), "{arch}: {head}");
                assert!(page.contains("serving") && page.ends_with("</html>\n"), "{arch}: {page}");
                let (_, text) = setup.ask("/status.txt");
                assert!(text.starts_with("SUMMARY\nState ") && text.contains("serving"), "{arch}: {text}");
                let has_name = |line: &str| line.split_whitespace().eq(["Architecture", arch]);
                assert!(text.lines().any(has_name), "{arch}: {text}");
                let mut watcher = setup.watch();
                for _ in 0..3 {
                    let event = watcher.next().expect("an event");
                    assert!(event.contains("\"summary\":\"<dl>"), "{arch}: {event}");
                }
                setup.server.stop();
            });
        }
    });
}

#[test]
fn figures_of_events_follow_the_traffic() {
    let setup = Setup::start("amped", &[]);
    let mut watcher = setup.watch();
    let quiet = watcher.next().expect("an event");
    assert!(quiet.contains("<b>0/s</b> <small>at most 0/s</small>"), "{quiet}");
    wait_for("an event that shows requests", || {
        for _ in 0..20 {
            assert_eq!(setup.server.get("/a.txt").status, 200);
        }
        let event = watcher.next().expect("an event");
        let highest = event.split("at most ").nth(1).and_then(|rest| rest.split("/s").next());
        highest.is_some_and(|rate| rate.parse().is_ok_and(|rate: u64| rate >= 10))
    });
    setup.server.stop();
}

#[test]
fn watchers_are_few_and_hold_up_nobody() {
    let setup = Setup::start("amped", &[]);
    // They read nothing but the first line.
    let mut watchers: Vec<_> = (0..8).map(|_| setup.watch()).collect();
    for watcher in &mut watchers {
        assert!(watcher.status().starts_with("HTTP/1.1 200"));
    }
    assert!(setup.watch().status().starts_with("HTTP/1.1 503"), "one too many");
    for _ in 0..20 {
        assert!(setup.ask("/healthz").0.starts_with("HTTP/1.1 200"));
    }
    drop(watchers);
    wait_for("room for another one", || setup.watch().status().starts_with("HTTP/1.1 200"));
    setup.server.stop();
}

#[test]
fn the_page_can_only_be_read() {
    let setup = Setup::start("sped", &[]);
    for path in ["/status", "/status.txt", "/events", "/"] {
        let (head, _) = setup.ask_by("POST", path);
        assert!(head.starts_with("HTTP/1.1 405"), "{path}: {head}");
    }
    setup.server.stop();
}

/// Without an access log, too.
#[test]
fn each_client_is_told_with_what_it_got() {
    for arch in ["amped", "uring", "sped"] {
        let setup = Setup::start(arch, &["--access-log", "off"]);
        wait_for("three responses of a byte", || {
            setup.server.get("/a.txt");
            let status: serde_json::Value =
                serde_json::from_str(&setup.ask("/status.json").1).expect("it is JSON");
            let first = &status["clients"][0];
            first["client"] == "127.0.0.1" && first["bytes"].as_u64() >= Some(3)
        });
        setup.server.stop();
    }
}

/// In logs, on pages and on terminals.
#[test]
fn what_clients_send_is_printable_wherever_people_read_it() {
    let scripts = scripts::make();
    let cgi = format!("/cgi={}", scripts.path().display());
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let cgi = &cgi;
            scope.spawn(move || {
                let arch = arch.split(' ').next().expect("a name");
                let setup = Setup::start(arch, &["--cgi", cgi]);
                let hidden = "/\u{9b}2J\u{202e}\u{85}\u{200b}txt";
                assert_eq!(setup.server.get(&format!("/cgi/wordless{hidden}")).status, 502, "{arch}");
                wait_for("the error log", || setup.server.said().contains("its program: "));
                wait_for("the slow requests", || setup.ask("/status.json").1.contains("\\u009b2J\\u202e"));
                let said = setup.server.said();
                assert!(said.contains("\\u{9b}2J\\u{202e}\\u{85}\\u{200b}txt"), "{arch}: {said:?}");
                let pages =
                    ["/status.json", "/status.txt", "/status", "/metrics"].map(|path| setup.ask(path).1);
                let shown = ["top --once", "status", "status --json"].map(|command| {
                    let words: Vec<&str> = command.split(' ').collect();
                    String::from_utf8(setup.run(&words).stdout).expect("a text")
                });
                for text in pages.iter().chain(&shown).chain([&said]) {
                    let hidden = |c: char| c != '\n' && c.is_control() || "\u{202e}\u{200b}".contains(c);
                    assert!(!text.contains(hidden), "{arch}: {text:?}");
                }
                assert!(
                    serde_json::from_str::<serde_json::Value>(&pages[0])
                        .is_ok_and(|json| json["pid"].is_u64())
                );
                setup.server.stop();
            });
        }
    });
}

/// The socket may be forwarded to a port of a browser's machine, where a page has a name of its own lead to it.
#[test]
fn pages_of_other_sites_can_neither_reload_nor_read() {
    let setup = Setup::start("sped", &[]);
    for (host, status) in [("localhost:9180", "200"), ("flash", "200"), ("evil.example:9180", "421")] {
        assert_eq!(&setup.ask_host("/status.json", host).0[9..12], status, "{host}");
    }

    let setup = Setup::start("sped", &[]);
    for (fields, status) in
        [("Origin: https://evil.example\r\n", "403"), ("Sec-Fetch-Site: cross-site\r\n", "403"), ("", "200")]
    {
        let (head, body) = setup.ask_with("POST", "/reopen", fields);
        assert_eq!(&head[9..12], status, "{fields}: {body}");
    }
    setup.server.stop();
}
