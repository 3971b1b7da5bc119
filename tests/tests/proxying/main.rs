//! Flash as a proxy: applications of today behind it, WebSockets, events, servers that die, and what clients try to smuggle through.

#![forbid(unsafe_code)]

mod app;
mod backend;
#[path = "../tls/client.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod client;
mod http2_servers;
mod rewriting;
mod sandbox;
mod smuggling;
mod streaming;
mod upstreams;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use app::App;
use client::Authority;
use flash_tests::reply::{self, Reply};
use flash_tests::{Server, Stop, need, program, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// The architectures with event loops.
const ARCHITECTURES: [&str; 3] = ["amped", "uring", "sped"];

/// A server that passes everything on to these.
fn server(arch: &str, folder: &TempDir, apps: &[&App], more: &[&str]) -> Server {
    let servers: Vec<String> = apps.iter().map(|app| format!("--proxy={}", app.url())).collect();
    let flags: Vec<&str> = servers.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start(arch, folder.path(), &flags)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// What the application says that it was asked.
fn told(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&reply.body)))
}

fn curl(server: &Server, words: &[&str], target: &str) -> Vec<u8> {
    let output = Command::new(need("curl", "curl"))
        .args(["-sSf", "--max-time", "60"])
        .args(words)
        .arg(format!("http://{}{target}", server.address))
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn an_application_is_asked_what_the_client_has_asked() {
    let (folder, app) = (folder(), App::node());
    let upload = folder.path().join("upload");
    fs::write(&upload, flash_tests::site::pattern(3 << 20)).expect("a file");
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&app], &["--body-bytes-max", "8M"]);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            for (words, bytes) in [
                (vec![], 0),
                (vec!["-d", "hello"], 5),
                (vec!["-H", "Transfer-Encoding: chunked", "-d", "hello"], 5),
                (vec!["-T", upload.to_str().expect("UTF-8")], 3 << 20),
            ] {
                // HTTP/2 has no chunks.
                if version != "--http1.1" && words.len() == 4 {
                    continue;
                }
                let words: Vec<&str> = [version].into_iter().chain(words).collect();
                let told: Value = serde_json::from_slice(&curl(&server, &words, "/a%20b?c=d")).expect("JSON");
                assert_eq!(
                    (&told["url"], &told["bytes"]),
                    (&"/a%20b?c=d".into(), &bytes.into()),
                    "{arch} {words:?}"
                );
            }
            let much = curl(&server, &[version], "/much?30000000");
            assert!(much.len() == 30_000_000 && much.iter().all(|byte| *byte == b'x'), "{arch} {version}");
            // A body whose length no head says.
            let path = upload.display();
            let words =
                format!("curl -sSf --max-time 60 {version} -T - http://{}/a < {path}", server.address);
            let output = Command::new("sh").args(["-c", &words]).output().expect("a shell runs");
            let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(told["bytes"], 3 << 20, "{arch} {version}");
        }
        server.stop();
    }
}

#[test]
fn connections_to_an_application_are_used_again() {
    let (folder, app) = (folder(), App::node());
    let server = server("amped", &folder, &[&app], &["--loops", "1"]);
    (0..50).for_each(|_| assert_eq!(server.get("/a").status, 200));
    let text = curl(&server, &[], "/a");
    assert!(!text.is_empty());
    assert!(app.connections() <= 3, "{} connections", app.connections());
}

#[test]
fn an_event_is_there_before_the_next_one_is_sent() {
    let (folder, app) = (folder(), App::node());
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&app], &["--compress-programs", "gzip"]);
        let mut client = server.connect();
        client
            .write_all(b"GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: identity\r\n\r\n")
            .expect("it is open");
        let mut got = Vec::new();
        read_until(&mut client, &mut got, b"data: first");
        assert_eq!(server.get("/next").status, 200);
        read_until(&mut client, &mut got, b"data: last");
        server.stop();
    }
}

fn read_until(client: &mut TcpStream, got: &mut Vec<u8>, wanted: &[u8]) {
    let mut buffer = [0; 4096];
    while reply::find(got, wanted).is_none() {
        let count = client.read(&mut buffer).expect("it comes in time");
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(got));
        got.extend_from_slice(&buffer[..count]);
    }
}

/// A text as a client's frame, with a mask of zeros, and the server's frame with the same text.
fn frames(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let length = u8::try_from(text.len()).expect("a short one");
    ([&[0x81, 0x80 | length, 0, 0, 0, 0], text].concat(), [&[0x81, length], text].concat())
}

fn websocket(server: &Server) -> TcpStream {
    let mut client = server.connect();
    let ask = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(ask.as_bytes()).expect("it is open");
    let mut got = Vec::new();
    read_until(&mut client, &mut got, b"\r\n\r\n");
    let head = String::from_utf8_lossy(&got).into_owned();
    // RFC 6455 §1.3 has this pair.
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client
}

fn echo(client: &mut TcpStream, text: &[u8]) {
    let (frame, expected) = frames(text);
    client.write_all(&frame).expect("it is open");
    read_until(client, &mut Vec::new(), &expected);
}

#[test]
fn a_websocket_outlives_reloads_and_ends_with_either_side() {
    let (folder, app) = (folder(), App::node());
    let config = folder.path().join("flash.toml");
    for arch in ARCHITECTURES {
        let write = |more: &str| {
            let text = format!(
                "listen = '127.0.0.1:0'\nadmin = 'off'\narch = '{arch}'\n[site.'*']\nproxy = '{}'\n{more}",
                app.url()
            );
            fs::write(&config, text).expect("the file is written");
        };
        write("");
        let server = Server::start_configured(&config, &[]);
        let mut clients: Vec<TcpStream> = (0..20).map(|_| websocket(&server)).collect();
        clients.iter_mut().for_each(|client| echo(client, b"before"));
        for round in 0..5 {
            write(&format!("header = {{ 'X-Round' = '{round}' }}\n"));
            server.signal(Signal::HUP);
            wait_for("the reload", || server.get("/a").field("X-Round") == Some(&round.to_string()));
            clients.iter_mut().for_each(|client| echo(client, b"after a reload"));
        }
        let mut last = clients.pop().expect("there are some");
        last.shutdown(std::net::Shutdown::Write).expect("it is open");
        assert_eq!(last.read(&mut [0; 10]).expect("it ends"), 0, "the application sees the end, and ends it");
        app.stop_one();
        for client in &mut clients {
            assert_eq!(client.read(&mut [0; 10]).unwrap_or_default(), 0, "the application has gone");
        }
        app.start_again();
        server.stop();
    }
}

/// Safe requests reach the other server, be it that one refuses connections or has closed an idle one.
#[test]
fn no_safe_request_fails_while_one_of_two_servers_is_killed() {
    let (folder, one, other) = (folder(), App::node(), App::node());
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&one, &other], &[]);
        let pids = |count: usize| {
            let pid = |_| told(&server.get("/a"))["pid"].clone();
            let mut pids: Vec<String> = (0..count).map(pid).map(|pid| pid.to_string()).collect();
            pids.sort();
            pids.dedup();
            pids.len()
        };
        assert_eq!(pids(100), 2, "{arch}: both are asked");
        let stops = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stops);
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut failed = 0;
                        while !stops.load(Ordering::Relaxed) {
                            failed += usize::from(server.get("/a").status != 200);
                        }
                        failed
                    })
                })
                .collect();
            one.stop_one();
            assert_eq!(pids(200), 1, "{arch}: one is left");
            one.start_again();
            wait_for("it is asked again", || pids(20) == 2);
            stops.store(true, Ordering::Relaxed);
            // Requests that it was working on have an answer of Flash alone.
            let failed: usize = clients.into_iter().map(|client| client.join().expect("it ends")).sum();
            assert!(failed <= 8, "{arch}: {failed} requests failed");
        });
        server.stop();
    }
}

#[test]
fn an_application_is_free_before_a_slow_client_has_its_response() {
    let (folder, app) = (folder(), App::node());
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&app], &[]);
        let count = || {
            String::from_utf8(server.get("/finished").body)
                .expect("a number")
                .parse::<usize>()
                .expect("a number")
        };
        let before = count();
        let mut client = server.connect();
        client
            .write_all(b"GET /much?20000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("it is open");
        wait_for("the application is free", || count() > before);
        let got = flash_tests::read_all(&mut client);
        assert_eq!(reply::only(&got).body.len(), 20_000_000, "{arch}");
        server.stop();
    }
}

#[test]
fn files_come_first_where_the_proxy_is_the_fallback() {
    let (folder, app) = (folder(), App::node());
    fs::create_dir_all(folder.path().join("root/static")).expect("folders");
    fs::write(folder.path().join("root/index.html"), "a page").expect("a file");
    fs::write(folder.path().join("root/static/a.css"), "a {}").expect("a file");
    let config = folder.path().join("flash.toml");
    let rules = "deny = '/private'\n'/api' = { strip-prefix = '/api', proxy-header = { 'X-Api' = '1' } }\n";
    let text = format!(
        "listen = '127.0.0.1:0'\nadmin = 'off'\n[site.'*']\nroot = 'root'\nfallback = 'proxy'\nproxy = '{}'\n{rules}",
        app.url()
    );
    fs::write(&config, text).expect("the file is written");
    let server = Server::start_configured(&config, &[]);
    for (path, body) in [("/", "a page"), ("/static/a.css", "a {}")] {
        assert_eq!(String::from_utf8(server.get(path).body).expect("text"), body);
    }
    for (path, url) in [("/users/1?x", "/users/1?x"), ("/api/users", "/users"), ("/static/../none", "/none")]
    {
        let told = told(&server.get(path));
        assert_eq!(told["url"], url, "{path}");
        let has_field = told["fields"].as_array().is_some_and(|fields| fields.contains(&"X-Api".into()));
        assert_eq!(has_field, path.starts_with("/api"));
    }
    assert_eq!(server.get("/private/x").status, 404);
    let posted = curl(&server, &["-d", "hello"], "/users");
    assert!(reply::find(&posted, b"\"method\":\"POST\"").is_some());
}

#[test]
fn what_is_wrong_is_said() {
    let folder = folder();
    let config = folder.path().join("flash.toml");
    for (rules, why) in [
        (
            "proxy = 'localhost:3000'",
            "write http://HOST:PORT, https://HOST:PORT, h2://HOST:PORT, h2c://HOST:PORT or unix:/PATH",
        ),
        ("proxy = ['http://a:1/x', 'http://b:2/y']", "servers that answer the same have the same path"),
        ("proxy = ['http://a:1', 'h2c://b:2']", "the same version of HTTP"),
        ("proxy = 'http://127.0.0.1:1'\nfallback = 'proxy'", "it needs its `root`"),
        ("proxy = 'http://127.0.0.1:1'\nno-programs = ['/etc']", "it needs its `root`"),
        (
            "proxy = 'http://127.0.0.1:1'\nproxy-header = { 'Host' = 'a' }",
            "proxy-host says which host is asked",
        ),
        (
            "proxy = 'shop'",
            "there is no upstream `shop`: write [upstream.shop], or an address such as http://shop:3000",
        ),
        (
            "proxy = 'ap'\nupstream.app = { servers = 'http://a:1' }",
            "there is no upstream `ap`: did you mean `app`?",
        ),
        ("proxy = 'app'\nupstream.app = { server = 'http://a:1' }", "did you mean `servers`?"),
        (
            "proxy = 'app'\nupstream.app = { servers = 'http://a:1', check = { path = '/a b' } }",
            "a wrong value of `path`",
        ),
        ("proxy = 'app'\nupstream.app = { servers = { 'http://a:1' = 3 } }", "this is a number"),
        ("proxy = ['app', 'http://b:1']\nupstream.app = { servers = 'http://a:1' }", "stands alone"),
        (
            "proxy = 'app'\nupstream.app = { servers = { 'http://a:1' = { weight = 0 } } }",
            "a weight is a number from 1 to 1000",
        ),
        ("proxy = 'http://127.0.0.1:1'\nbalance = 'random'", "\"least-requests\", \"round-robin\""),
    ] {
        fs::write(&config, format!("[site.'*']\n{rules}\n")).expect("the file is written");
        assert_says(&["check"], &config, why);
    }
    fs::write(&config, "[site.'*']\nproxy = 'http://127.0.0.1:1'\n").expect("the file is written");
    for arch in ["mt", "mp", "pipelined"] {
        assert_says(&["serve", "--arch", arch], &config, "--proxy needs an architecture with event loops");
    }
}

fn assert_says(words: &[&str], config: &Path, why: &str) {
    let output =
        Command::new(program()).args(words).arg("--config").arg(config).output().expect("flash runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains(why), "{words:?}: {said}");
}

#[test]
fn a_server_that_is_not_there_is_502_and_one_that_is_silent_504() {
    let folder = folder();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("it has one");
    let flags = [format!("--proxy=http://{address}"), "--program-deadline=1s".to_owned()];
    let server = Server::start("amped", folder.path(), &flags.each_ref().map(String::as_str));
    assert_eq!(server.get("/").status, 504);
    drop(silent);
    assert_eq!(server.get("/").status, 502);
}

#[test]
fn an_application_shows_its_certificate() {
    let (folder, authority) = (folder(), Authority::new());
    let app = App::node_with_tls(&authority.issue("app", &["localhost"]));
    let url = format!("--proxy=https://localhost:{}", app.port());
    let own = authority.path("authority.pem").display().to_string();
    for arch in ARCHITECTURES {
        let server =
            Server::start(arch, folder.path(), &[&url, "--proxy-ca", &own, "--body-bytes-max", "8M"]);
        let upload = folder.path().join("upload");
        fs::write(&upload, flash_tests::site::pattern(3 << 20)).expect("a file");
        let told: Value =
            serde_json::from_slice(&curl(&server, &["-T", upload.to_str().expect("UTF-8")], "/a"))
                .expect("JSON");
        assert_eq!(told["bytes"], 3 << 20, "{arch}");
        let much = curl(&server, &[], "/much?30000000");
        assert!(much.len() == 30_000_000 && much.iter().all(|byte| *byte == b'x'), "{arch}");
        (0..30).for_each(|_| assert_eq!(server.get("/a").status, 200));
        assert!(app.connections() <= 6, "{arch}: {} connections", app.connections());
        let mut client = websocket(&server);
        (0..5).for_each(|_| echo(&mut client, b"sealed"));
        server.stop();
    }
    // The machine does not trust the authority, and the name may be another one.
    for flags in [vec![], vec!["--proxy-ca", &own, "--proxy-host", "other.internal"]] {
        let flags: Vec<&str> = [&*url].into_iter().chain(flags).collect();
        let server = Server::start("amped", folder.path(), &flags);
        assert_eq!(server.get("/a").status, 502, "{flags:?}");
        wait_for("the reason", || {
            server.said().contains("shows a certificate that is not accepted for its name")
        });
    }
}

/// A check goes through the same TLS as requests.
#[test]
fn a_check_asks_an_application_for_its_certificate() {
    let (folder, authority) = (folder(), Authority::new());
    let app = App::node_with_tls(&authority.issue("app", &["localhost"]));
    let own = format!("proxy-ca = '{}'", authority.path("authority.pem").display());
    let config = folder.path().join("flash.toml");
    let start = |rules: &str| {
        let text = format!(
            "listen = '127.0.0.1:0'\nadmin = 'off'\n[upstream.app]\nservers = 'https://localhost:{}'\n\
             check = {{ path = '/healthz', every = '1s' }}\n[site.'*']\nproxy = 'app'\n{rules}\n",
            app.port()
        );
        fs::write(&config, text).expect("the file is written");
        Server::start_configured(&config, &[])
    };
    let server = start("");
    let said = "fails its check: shows a certificate that is not accepted for its name";
    wait_for("the reason", || server.said().contains(said));
    server.stop();
    let server = start(&own);
    app.stop_one();
    wait_for("it is not there", || server.said().contains("fails its check: Connection refused"));
    app.start_again();
    wait_for("it is there", || server.said().contains("passes its check again"));
    assert_eq!(server.get("/a").status, 200);
}

#[test]
fn php_and_python_are_applications_too() {
    let folder = folder();
    fs::write(folder.path().join("index.php"), "<?php echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['HTTP_X_FORWARDED_FOR'];")
        .expect("a script");
    for app in [App::php(folder.path()), App::python(folder.path())] {
        let server = server("amped", &folder, &[&app], &[]);
        let reply = server.get("/index.php?a=b");
        assert_eq!(reply.status, 200, "{}", app.url());
        if app.is_php() {
            assert_eq!(String::from_utf8(reply.body).expect("text"), "GET /index.php?a=b 127.0.0.1");
        }
        server.stop();
    }
}
