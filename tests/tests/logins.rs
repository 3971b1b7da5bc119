//! Log-ins in every architecture: who is let in, what remembers whom, and what a flood of guesses leaves to others.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{
    ARCHITECTURES, PROCESSES, Server, arch_settings, open_folder, program, read_all, set_mode, site, wait_for,
};
use tempfile::TempDir;

// All passwords are "bee".
const BOB: &str = "bob:$2b$04$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG";
const ANN: &str = "ann:$5$rounds=1000$saltstring$8Sxg4kFtLpnhyLb1JKNtANKHvK8c2hLHIjyWj1FVKi9";
/// The hash of nobody's password, whose check takes longer than that of any other test.
const SLOW: &str = "slow:$2b$10$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG";
const AS_BOB: &str = "Authorization: Basic Ym9iOmJlZQ==\r\n";
const AS_ANN: &str = "Authorization: Basic YW5uOmJlZQ==\r\n";
const WRONG: &str = "Authorization: Basic Ym9iOndhc3A=\r\n";

fn head(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n")
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Reply {
    reply::only(&server.raw(head(method, path, fields).as_bytes()))
}

/// A password file with these lines.
fn users(folder: &TempDir, lines: &[&str]) -> PathBuf {
    let path = folder.path().join("staff.htpasswd");
    fs::write(&path, lines.join("\n")).expect("the file is written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// Those that a configuration file can name.
fn plain_architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().filter(|arch| !arch.contains(' '))
}

/// With `satisfy`, a network is enough, and so is a log-in.
#[test]
fn a_network_or_a_log_in_is_enough() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB]);
    let from = |address: &str, fields: &str| format!("X-Forwarded-For: {address}\r\n{fields}");
    for arch in ARCHITECTURES {
        let flags = ["--auth", text(&file), "--trusted-proxies", "127.0.0.1", "--satisfy", "any"];
        let server = Server::start(arch, site.path(), &[&flags[..], &["--allow", "10.0.0.0/8"]].concat());
        for (address, fields, status) in [
            ("10.1.2.3", "", 200),
            ("10.1.2.3", WRONG, 200),
            ("192.0.2.1", "", 401),
            ("192.0.2.1", WRONG, 401),
            ("192.0.2.1", AS_BOB, 200),
        ] {
            let reply = ask(&server, "GET", "/a.txt", &from(address, fields));
            assert_eq!(reply.status, status, "{arch}: {address} {fields}");
        }
        drop(server);
        // Where no network is named, each client logs in.
        let server = Server::start(arch, site.path(), &flags);
        assert_eq!(ask(&server, "GET", "/a.txt", &from("10.1.2.3", "")).status, 401, "{arch}");
        drop(server);
        // Both, without it.
        let both = ["--auth", text(&file), "--trusted-proxies", "127.0.0.1", "--allow", "10.0.0.0/8"];
        let server = Server::start(arch, site.path(), &both);
        for (address, fields, status) in
            [("10.1.2.3", "", 401), ("10.1.2.3", AS_BOB, 200), ("192.0.2.1", AS_BOB, 403)]
        {
            let reply = ask(&server, "GET", "/a.txt", &from(address, fields));
            assert_eq!(reply.status, status, "{arch}: {address} {fields}");
        }
    }
}

#[test]
fn only_users_of_the_file_get_what_is_there() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB, ANN]);
    for arch in ARCHITECTURES {
        let log = folder.path().join(format!("{arch}.log"));
        let server = Server::start(
            arch,
            site.path(),
            &[
                "--auth",
                text(&file),
                "--list",
                "--access-log",
                text(&log),
                "--cache-control",
                "public, max-age=9",
            ],
        );
        for (method, path, fields) in [
            ("GET", "/a.txt", ""),
            ("GET", "/a.txt", WRONG),
            ("GET", "/a.txt", "Range: bytes=0-1\r\n"),
            ("OPTIONS", "/", ""),
            ("POST", "/a.txt", "Content-Length: 5\r\n"),
            ("GET", "/", WRONG),
            ("GET", "/no-such-name", ""),
        ] {
            let refused = ask(&server, method, path, fields);
            assert_eq!(refused.status, 401, "{arch}: {method} {path} {fields}");
            let challenge = refused.field("WWW-Authenticate");
            assert_eq!(challenge, Some("Basic realm=\"staff\", charset=\"UTF-8\""), "{arch}");
            assert_eq!(refused.field("Cache-Control"), Some("no-store"), "{arch}");
        }
        for fields in [AS_BOB, AS_ANN, AS_BOB] {
            let admitted = ask(&server, "GET", "/a.txt", fields);
            assert_eq!(admitted.status, 200, "{arch}: {fields}");
            assert_eq!(admitted.field("Cache-Control"), Some("private, max-age=9"), "{arch}");
        }
        assert_eq!(ask(&server, "GET", "/no-such-name", AS_ANN).status, 404, "{arch}");
        // Many on one connection, in order.
        let all = [AS_BOB, WRONG, AS_BOB, ""]
            .map(|fields| head("GET", "/a.txt", fields).replace("Connection: close\r\n", ""));
        let bytes = server.raw((all.concat() + &head("GET", "/a.txt", AS_ANN)).as_bytes());
        let statuses: Vec<u16> = reply::all(&bytes, |_| false).iter().map(|reply| reply.status).collect();
        assert_eq!(statuses, [200, 401, 200, 401, 200], "{arch}");
        let said = server.stop();
        assert!(!said.contains("bee") && !said.contains("Ym9i"), "{arch}: {said}");
        let log = fs::read_to_string(&log).expect("there is a log");
        for line in log.lines() {
            let user = line.split(' ').nth(2).expect("a user");
            let is_admitted = line.contains(" 200 ") || line.contains(" 404 ");
            assert_eq!(is_admitted, ["bob", "ann"].contains(&user), "{arch}: {line}");
        }
        assert!(!log.contains("bee") && !log.contains("Ym9i"), "{arch}: {log}");
    }
}

#[test]
fn a_success_is_remembered_by_all_loops_and_processes() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB]);
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--auth", text(&file)]);
        (0..20).for_each(|_| assert_eq!(ask(&server, "GET", "/a.txt", AS_BOB).status, 200, "{arch}"));
        (0..3).for_each(|_| assert_eq!(ask(&server, "GET", "/a.txt", WRONG).status, 401, "{arch}"));
        let said = server.stop();
        // The processes of mp count for themselves, and say nothing at the end.
        if arch != "mp" {
            assert!(said.contains(" logins=4 "), "{arch}: one success and three guesses: {said}");
        }
    }
}

/// Also one that is root's alone, where the server is another user's.
#[test]
fn a_reload_reads_the_file_again() {
    let (site, folder) = (site::make(), open_folder());
    let file = users(&folder, &[BOB]);
    set_mode(&file, 0o600);
    let user = if rustix::process::geteuid().is_root() { "user = 'nobody'\n" } else { "" };
    for arch in ARCHITECTURES {
        fs::write(&file, BOB).unwrap();
        let (config, socket) = (folder.path().join("flash.toml"), folder.path().join("admin.sock"));
        let root = site.path().display();
        fs::write(
            &config,
            format!(
                "listen = '127.0.0.1:0'\nadmin = 'unix:{}'\n{user}{}[site.'*']\nroot = '{root}'\n\
                 '/sub' = {{ auth = '{}' }}\n'/sub/open' = {{ auth = 'off' }}\n",
                socket.display(),
                arch_settings(arch),
                file.display()
            ),
        )
        .unwrap();
        let server = Server::start_configured(&config, &[]);
        let reload = || Command::new(program()).args(["reload", "--config", text(&config)]).output().unwrap();
        let status = |path, fields| ask(&server, "GET", path, fields).status;
        assert_eq!(status("/a.txt", ""), 200, "{arch}");
        assert_eq!(["/sub", "/sub/a", "/subway"].map(|path| status(path, "")), [401, 401, 404], "{arch}");
        assert_eq!(["/sub/a", "/sub/open/a"].map(|path| status(path, "")), [401, 404], "{arch}");
        assert_eq!((status("/sub/a", AS_BOB), status("/sub/a", AS_ANN)), (404, 401), "{arch}");
        fs::write(&file, ANN).unwrap();
        assert_eq!(status("/sub/a", AS_BOB), 404, "{arch}: not before the reload");
        assert!(reload().status.success(), "{arch}");
        assert_eq!((status("/sub/a", AS_BOB), status("/sub/a", AS_ANN)), (401, 404), "{arch}");
        fs::write(&file, "ann:bee\n").unwrap();
        let refused = reload();
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arch}: {why}");
        let place = format!("{}:1: ann: this is no hash", file.display());
        // In a sandbox only the server can read it, and the place in the configuration is not known there.
        let mark = format!("flash.toml:{}:", if user.is_empty() { 7 } else { 8 });
        let is_marked = why.contains(&mark) || (arch == PROCESSES && !user.is_empty());
        assert!(why.contains(&place) && is_marked && !why.contains(" bee"), "{arch}: {why}");
        assert_eq!(status("/sub/a", AS_ANN), 404, "{arch}: the configuration stays what it was");
        server.stop();
    }
}

/// Sends a guess and does not wait for its answer.
fn guess(server: &Server, client: u8, number: usize) -> TcpStream {
    let mut stream = server.connect_from(Ipv4Addr::new(127, 0, 0, client));
    let token = ["c2xvdzph", "c2xvdzpi", "c2xvdzpj", "c2xvdzpk"][number % 4];
    // Each guess is another one.
    let more: String =
        (0..4).map(|digit| ["YWFh", "YmJi", "Y2Nj", "ZGRk"][number >> (2 * digit) & 3]).collect();
    let fields = format!("Authorization: Basic {token}{more}\r\n");
    stream.write_all(head("GET", "/a.txt", &fields).as_bytes()).expect("the server takes it");
    stream
}

fn status_of(mut stream: TcpStream) -> u16 {
    reply::only(&read_all(&mut stream)).status
}

#[test]
fn a_flood_of_guesses_leaves_workers_to_files_and_is_refused() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[SLOW]);
    let config = folder.path().join("flash.toml");
    for arch in plain_architectures() {
        let root = site.path().display();
        let text = format!(
            "arch = '{arch}'\nlisten = '127.0.0.1:0'\nadmin = 'off'\nthreads = 8\nthreads-max = 16\nprocesses = 8\n\
             processes-max = 16\n[site.'*']\nroot = '{root}'\n[site.'h']\nroot = '{root}'\nauth = '{}'\n",
            file.display()
        );
        fs::write(&config, text).unwrap();
        let server = Server::start_configured(&config, &[]);
        let guesses: Vec<TcpStream> = (0..150).map(|number| guess(&server, 2, number)).collect();
        // While the guesses wait, a file comes at once: none of them has taken its worker.
        let begun = Instant::now();
        let plain = b"GET /a.txt HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n";
        (0..5).for_each(|_| assert_eq!(reply::only(&server.raw(plain)).status, 200, "{arch}"));
        let files_took = begun.elapsed();
        let statuses: Vec<u16> = guesses.into_iter().map(status_of).collect();
        let all_took = begun.elapsed();
        let count = |status| statuses.iter().filter(|other| **other == status).count();
        assert_eq!(count(401) + count(503), statuses.len(), "{arch}: {statuses:?}");
        assert!(count(401) > 0 && count(503) > 0, "{arch}: {statuses:?}");
        assert!(files_took < all_took.max(Duration::from_secs(2)), "{arch}: {files_took:?} of {all_took:?}");
        server.stop();
    }
}

#[test]
fn programs_learn_who_it_is() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB]);
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let script = programs.join("env");
    fs::write(&script, "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n/usr/bin/env\n").unwrap();
    set_mode(&script, 0o755);
    let cgi = format!("/cgi={}", programs.display());
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--auth", text(&file), "--cgi", &cgi]);
        assert_eq!(ask(&server, "GET", "/cgi/env", WRONG).status, 401, "{arch}");
        let reply = ask(&server, "POST", "/cgi/env", &format!("Content-Length: 0\r\n{AS_BOB}"));
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{arch}");
        assert!(body.contains("REMOTE_USER=bob\n") && body.contains("AUTH_TYPE=Basic\n"), "{arch}: {body}");
        assert!(!body.contains("AUTHORIZATION") && !body.contains("Ym9i"), "{arch}: {body}");
        server.stop();
    }
}

/// What `flash check` says of a configuration with these lines in its site.
fn checked(folder: &TempDir, lines: &str) -> String {
    let config = folder.path().join("flash.toml");
    fs::write(&config, format!("[site.'*']\nroot = '.'\n{lines}")).unwrap();
    let output = Command::new(program()).args(["check", "--config", text(&config)]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

/// Other paths to what needs a log-in are no errors, because they need it, too.
#[test]
fn a_log_in_may_stand_wherever_a_rule_may() {
    let folder = tempfile::tempdir().unwrap();
    users(&folder, &[BOB]);
    fs::create_dir(folder.path().join("admin")).unwrap();
    for name in ["index.html", "admin/app.html"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let said = checked(&folder, "auth = 'none.htpasswd'");
    assert!(said.contains("cannot read ") && said.contains("flash.toml:"), "{said}");
    let auth = "auth = 'staff.htpasswd'";
    for lines in [
        format!("'*.php' = {{ {auth} }}"),
        format!("{auth}\n'*.css' = {{ auth = 'off' }}"),
        format!("spa = '/admin/app.html'\n'/admin' = {{ {auth} }}"),
        format!("'/index.html' = {{ {auth} }}"),
        format!("{auth}\n'*.css' = {{ charset = 'off' }}\n'/public' = {{ auth = 'off' }}"),
        format!("'/admin' = {{ {auth}, spa = '/admin/app.html' }}"),
        format!("{auth}\nspa = '/admin/app.html'\n'/index.html' = {{ list = true }}"),
    ] {
        assert_eq!(checked(&folder, &lines), "", "{lines}");
    }
}

#[test]
fn an_explanation_says_that_a_log_in_is_needed_and_where() {
    let folder = tempfile::tempdir().unwrap();
    users(&folder, &[BOB]);
    fs::create_dir(folder.path().join("admin")).unwrap();
    fs::write(folder.path().join("admin/a.txt"), "a").unwrap();
    let config = folder.path().join("flash.toml");
    fs::write(&config, "[site.'h']\nroot = '.'\n'/admin' = { auth = 'staff.htpasswd' }\n").unwrap();
    let explain = |words: &[&str]| {
        let words = [&["explain", "http://h:8080/admin/a.txt", "--config", text(&config)], words].concat();
        let output = Command::new(program()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = explain(&[]);
    assert!(said.contains("log-in    needed") && said.contains("flash.toml:3)"), "{said}");
    assert!(
        said.contains("status    401") && said.contains("WWW-Authenticate: Basic realm=\"staff\""),
        "{said}"
    );
    assert!(!said.contains("admin/a.txt\n  file"), "{said}");
    let said = explain(&["--header", "Authorization: Basic Ym9iOmJlZQ=="]);
    assert!(said.contains("status    200") && said.contains("log-in    needed"), "{said}");
    assert!(!said.contains("Ym9i") && !said.contains("bee"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&explain(&["--json"])).unwrap();
    assert!(json["login"]["at"].as_str().unwrap().ends_with("flash.toml:3"), "{json}");
}

#[test]
fn the_same_holds_over_http_2() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB]);
    let curl = flash_tests::need("curl", "curl");
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &["--auth", text(&file)]);
        let url = format!("http://{}/a.txt", server.address);
        let status = |user: &str| {
            let words =
                ["-s", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--http2-prior-knowledge"];
            let words = [&words[..], &["-u", user, &url]].concat();
            String::from_utf8(Command::new(&curl).args(words).output().unwrap().stdout).unwrap()
        };
        assert_eq!(status("bob:wasp"), "401 2", "{arch}");
        assert_eq!(status("bob:bee"), "200 2", "{arch}");
        server.stop();
    }
}

#[test]
fn a_client_that_leaves_while_its_log_in_waits_leaves_nothing_behind() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[SLOW, BOB]);
    for arch in ARCHITECTURES {
        let flags = ["--auth", text(&file), "--threads", "4", "--threads-max", "4", "--processes", "4"];
        let flags = [&flags[..], &["--processes-max", "4"]].concat();
        let server = Server::start(arch, site.path(), &flags);
        for number in 0..20 {
            let mut stream = guess(&server, 1, number);
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let _ = stream.read(&mut [0; 1]);
        }
        // One worker in four may wait for a log-in, and is free again after each.
        let give_up = Instant::now() + Duration::from_secs(20);
        while ask(&server, "GET", "/a.txt", AS_BOB).status != 200 {
            assert!(Instant::now() < give_up, "{arch}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server.stop();
    }
}

/// What fail2ban reads: a line for each attempt, which begins with the client that a proxy has named and no request can forge.
#[test]
fn the_error_log_has_each_log_in_that_failed() {
    let (site, folder) = (site::make(), tempfile::tempdir().unwrap());
    let file = users(&folder, &[BOB]);
    for arch in plain_architectures() {
        for format in ["text", "json"] {
            let log = folder.path().join(format!("{arch}-{format}"));
            let flags = ["--auth", text(&file), "--error-log", text(&log), "--error-log-format", format];
            let more = ["--trusted-proxies", "127.0.0.1", "--processes", "1"];
            let server = Server::start(arch, site.path(), &[&flags[..], &more].concat());
            // A client has five lines in a second.
            for last in 7..10 {
                let forwarded = format!("{WRONG}X-Forwarded-For: 192.0.2.{last}\r\n");
                assert_eq!(ask(&server, "GET", "/a.txt?client 192.0.2.8", &forwarded).status, 400, "a space");
                assert_eq!(ask(&server, "GET", "/a.txt,client-192.0.2.8:", &forwarded).status, 401, "{arch}");
            }
            let lines = || {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let failed = text.lines().filter(|line| line.contains("the user name or the password"));
                failed.map(str::to_owned).collect::<Vec<_>>()
            };
            wait_for("three lines", || lines().len() == 3);
            for (line, last) in lines().into_iter().zip(7..) {
                let client = format!("192.0.2.{last}");
                if format == "json" {
                    let line: serde_json::Value = serde_json::from_str(&line).expect("an object");
                    assert_eq!((&line["client"], &line["status"]), (&client.into(), &401.into()), "{line}");
                    assert_eq!(
                        (&line["user"], &line["path"]),
                        (&"bob".into(), &"/a.txt,client-192.0.2.8:".into())
                    );
                } else {
                    let (time, rest) = line.split_once(' ').expect("a time");
                    assert!(time.ends_with('Z'), "{line}");
                    let begins = format!(
                        "flash: client {client}, site *, user \"bob\", /a.txt,client-192.0.2.8:: 401: "
                    );
                    assert!(rest.starts_with(&begins), "{line}");
                }
            }
            server.stop();
            let text = fs::read_to_string(&log).unwrap();
            // What is said before the log is open is there, too. The parent of mp has none.
            assert!(text.contains("serving ") || arch == "mp", "{arch}: {text}");
            let is_object = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
            assert!(format == "text" || text.lines().all(is_object), "{arch}: {text}");
        }
    }
}

#[test]
fn the_error_log_names_the_site_that_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = site::make();
    let users = users(&folder, &[BOB]);
    let config = folder.path().join("flash.toml");
    let log = folder.path().join("log");
    let root = root.path().display();
    fs::write(
        &config,
        format!(
            "listen = '127.0.0.1:0'\nerror-log = '{}'\nauth = '{}'\n[site.'a.example']\nroot = '{root}'\n\
             [site.'b.example']\nnames = ['c.example']\nroot = '{root}'\n",
            log.display(),
            users.display()
        ),
    )
    .unwrap();
    let server = Server::start_configured(&config, &[]);
    for host in ["a.example", "c.example"] {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n{WRONG}Connection: close\r\n\r\n");
        assert_eq!(reply::only(&server.raw(request.as_bytes())).status, 401);
    }
    let said = || fs::read_to_string(&log).unwrap_or_default();
    for site in ["a.example", "b.example"] {
        wait_for("its line", || {
            said().contains(&format!("client 127.0.0.1, site {site}, user \"bob\", /a.txt: 401: "))
        });
    }
    server.stop();
}
