//! The configuration file with the real program: what it sets, and what is said about wrong ones.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use flash_tests::{ARCHITECTURES, Server, arch_settings, program, site, wait_for};
use tempfile::TempDir;

const GET_A: &[u8] = b"GET /a.txt HTTP/1.0\r\n\r\n";

/// A file in a folder of its own.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flash.toml");
    fs::write(&path, text).expect("the file is written");
    (folder, path)
}

fn run(words: &[&str], path: &PathBuf) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(program()).args(words).arg("--config").arg(path).output().expect("flash runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_file_is_served_by_every_architecture() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let text = format!(
            "root = '{}'\nlisten = '127.0.0.1:0'\n{}verbose = true\n[header]\nX-Of = ['the file', 'both']\n",
            site.path().display(),
            arch_settings(arch)
        );
        let (_folder, path) = file(&text);
        let server = Server::start_configured(&path, &[]);
        let reply = String::from_utf8(server.raw(GET_A)).expect("it is text");
        assert!(
            reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\n0123456789"),
            "{arch}: {reply}"
        );
        assert!(reply.contains("X-Of: the file\r\nX-Of: both\r\n"), "{arch}: {reply}");
    }
}

#[test]
fn flags_win_and_relative_paths_begin_at_the_file() {
    let text = "root = 'site'\nlisten = '127.0.0.1:0'\nindex = ['none.html', 'page.html']\nlist = true\n[header]\nX-Of = 'the file'\n";
    let (folder, path) = file(text);
    fs::create_dir(folder.path().join("site")).expect("a folder");
    for (name, content) in [("site/page.html", "page"), ("site/other.html", "other")] {
        site::write(&folder.path().join(name), content.as_bytes());
    }
    let ask = |flags: &[&str]| {
        let reply = Server::start_configured(&path, flags).raw(b"GET / HTTP/1.0\r\n\r\n");
        let reply = String::from_utf8(reply).expect("it is text");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head ends");
        (head.to_owned(), body.to_owned())
    };
    let (head, body) = ask(&[]);
    assert!(head.contains("X-Of: the file") && body == "page", "{head}{body}");
    let (head, body) = ask(&["--index", "other.html", "--header", "X-Of: the flag"]);
    assert!(head.contains("X-Of: the flag") && !head.contains("the file") && body == "other", "{head}{body}");
}

const WRONG: &str = "\
root = 'nowhere'
lisen = ':80'
drain = 10
arch = 'apmed'
[header]
Date = 'now'
";

#[test]
fn all_errors_are_said_at_once_with_their_places() {
    let (_folder, path) = file(WRONG);
    let shown = path.display();
    for words in [&["check"][..], &["serve"], &["serve", "--list"]] {
        let (code, out, said) = run(words, &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.ends_with(&format!("\n\nflash: {shown} has 5 errors\n")), "{said}");
        let mut rest = &said[..];
        for expected in [
            format!("{shown}:1:8"),
            "1 | root = 'nowhere'\n  |        ^^^^^^^^^ there is no such folder\n".into(),
            format!("{shown}:2:1"),
            "2 | lisen = ':80'\n  | ^^^^^ did you mean `listen`?\n".into(),
            format!("{shown}:3:9"),
            "^^ add the unit, as in 10s or 10ms\n".into(),
            format!("{shown}:4:8"),
            "^^^^^^^ did you mean \"amped\"?\n".into(),
            format!("{shown}:6:8"),
            "Date is not yours to set".into(),
        ] {
            let at = rest.find(&expected).unwrap_or_else(|| panic!("no {expected} in {rest}"));
            rest = &rest[at + expected.len()..];
        }
    }
}

#[test]
fn a_site_or_a_place_has_an_access_log_of_its_own_or_none() {
    for arch in ARCHITECTURES {
        let (folder, path) = sites("");
        let text = fs::read_to_string(&path).expect("a file");
        let own = "[site.'a.example']
            access-log = 'of-a'
            '/health' = { access-log = 'off' }
            '/quiet' = { log-status = ['404', '5xx'] }
            '/shared' = { access-log = 'log' }";
        let text = text.replace("[site.'a.example']", own);
        let server = format!("access-log = 'log'\nlog-format = 'vhost-combined'\n{}", arch_settings(arch));
        fs::write(&path, server + &text).expect("it is written");
        fs::create_dir(folder.path().join("a/quiet")).expect("a folder");
        site::write(&folder.path().join("a/quiet/here.txt"), b"here");
        let server = Server::start_configured(&path, &[]);
        for (host, target) in [
            ("a.example", "/health"),
            ("x.b.example", "/health"),
            ("a.example", "/a.txt"),
            ("a.example", "/quiet/here.txt"),
            ("a.example", "/quiet/nothing"),
            ("a.example", "/shared"),
            ("c.example", "/of-no-site"),
        ] {
            ask(&server, host, target);
        }
        server.stop();
        let lines = |log: &str| -> Vec<String> {
            let lines = fs::read_to_string(folder.path().join(log)).expect("a log");
            let start =
                |line: &str| line.split(" HTTP/").next().unwrap_or_default().replace(" 127.0.0.1 - - [", " ");
            let words = |line: &str| {
                let line = start(line);
                let (host, target) =
                    (line.split(' ').next().unwrap_or(""), line.rsplit(' ').next().unwrap_or(""));
                format!("{host} {target}")
            };
            let mut lines: Vec<String> = lines.lines().map(words).collect();
            lines.sort();
            lines
        };
        assert_eq!(lines("of-a"), ["a.example:80 /a.txt", "a.example:80 /quiet/nothing"], "{arch}");
        let shared = ["a.example:80 /shared", "c.example:80 /of-no-site", "x.b.example:80 /health"];
        assert_eq!(lines("log"), shared, "{arch}");
    }
}

/// The last release's files, which pages that are open still ask for.
#[test]
fn a_site_looks_behind_its_root_for_what_it_lacks() {
    for arch in ARCHITECTURES {
        let (folder, path) = file(&format!(
            "listen = '127.0.0.1:0'\nrevalidate = '0s'\n{}
            [site.'*']
            root = 'current'
            fallback-root = ['previous', 'first']
            spa = 'index.html'
            '/list' = {{ list = true }}\n",
            arch_settings(arch)
        ));
        let put = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
            site::write(&path, name.as_bytes());
        };
        for name in ["current/index.html", "current/new.js", "current/both.js"] {
            put(name);
        }
        for name in ["previous/old.js", "previous/both.js", "previous/list/a.txt", "first/oldest.js"] {
            put(name);
        }
        let server = Server::start_configured(&path, &[]);
        let body = |path: &str| ask(&server, "h", path);
        // Looked up, and from the caches.
        for _ in 0..2 {
            for (path, expected) in [
                ("/new.js", "current/new.js"),
                ("/both.js", "current/both.js"),
                ("/old.js", "previous/old.js"),
                ("/oldest.js", "first/oldest.js"),
                ("/app", "current/index.html"),
            ] {
                assert_eq!(body(path), (200, expected.to_owned()), "{arch}: {path}");
            }
            assert!(body("/list/").1.contains("a.txt"), "{arch}");
            assert_eq!(body("/none.js").0, 404, "{arch}");
        }
        // A deploy.
        put("current/old.js");
        fs::remove_file(folder.path().join("current/both.js")).expect("it is there");
        wait_for("the new files", || {
            body("/old.js").1 == "current/old.js" && body("/both.js").1 == "previous/both.js"
        });
        fs::remove_dir_all(folder.path().join("first")).expect("it is there");
        wait_for("what is gone", || body("/oldest.js").0 == 404);
        assert_eq!((body("/none.js").0, body("/new.js").0), (404, 200), "{arch}");
        server.stop();
    }
}

/// A switch of the first root says nothing about the next ones.
#[test]
fn a_folder_of_a_next_root_is_listed_after_the_first_is_switched() {
    for arch in ARCHITECTURES {
        let (folder, path) = file(&format!(
            "listen = '127.0.0.1:0'\nrevalidate = '0s'\n{}
            [site.'*']
            root = 'current'
            fallback-root = 'shared'
            digests = true
            list = true\n",
            arch_settings(arch)
        ));
        for name in ["one", "two", "shared/pics"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let current = folder.path().join("current");
        let lead_to = |release: &str| {
            site::write(&folder.path().join(release).join("release"), release.as_bytes());
            let next = folder.path().join("next");
            std::os::unix::fs::symlink(release, &next).expect("a link");
            fs::rename(next, &current).expect("it takes its place");
        };
        lead_to("one");
        site::write(&folder.path().join("shared/pics/a.png"), b"a picture");
        let server = Server::start_configured(&path, &[]);
        for release in ["one", "two"] {
            lead_to(release);
            wait_for("the release", || ask(&server, "h", "/release").1 == release);
            let (status, listing) = ask(&server, "h", "/pics/");
            assert!(status == 200 && listing.contains("a.png"), "{arch}: {status}");
            wait_for("the digest", || ask(&server, "h", "/pics/a.png.sha256").0 == 200);
        }
        server.stop();
    }
}

#[test]
fn a_place_of_all_sites_is_in_each() {
    let (folder, path) = sites(
        "[place.'/.well-known/acme-challenge']
        root = 'acme'
        strip-prefix = '/.well-known/acme-challenge'
        auth = 'off'
        [place.'/empty']
        list = true\n",
    );
    fs::create_dir(folder.path().join("acme")).expect("a folder");
    site::write(&folder.path().join("acme/token"), b"answer");
    let mut text = fs::read_to_string(&path).expect("a file");
    text += "[site.'moved.example']\nredirect = 'https://a.example{path}'\n'/empty' = { list = false, root = 'a' }\n";
    fs::write(&path, text).expect("it is written");
    let server = Server::start_configured(&path, &[]);
    for host in ["a.example", "x.b.example", "secret.b.example", "moved.example"] {
        let answer = ask(&server, host, "/.well-known/acme-challenge/token");
        assert_eq!(answer, (200, "answer".into()), "{host}");
    }
    assert_eq!(ask(&server, "moved.example", "/b.txt").0, 308);
    let status = |host: &str| ask(&server, host, "/empty/").0;
    assert_eq!(["a.example", "moved.example"].map(status), [200, 403], "the site's own key wins");
    server.stop();
    let (folder, path) = sites("[place.'=/a.key']\ncache-control = 'no-cache'\n");
    site::write(&folder.path().join("a/a.key"), b"secret");
    let text = fs::read_to_string(&path)
        .expect("a file")
        .replace("[site.'a.example']", "[site.'a.example']\n'*.key' = { allow = '192.0.2.1' }");
    fs::write(&path, text).expect("it is written");
    let server = Server::start_configured(&path, &[]);
    assert_eq!(ask(&server, "a.example", "/a.key").0, 403, "the site's guard holds");
    server.stop();
    let (_folder, path) = file("root = '/'\n[place.'/a']\nlist = true\n");
    let (code, _, said) = run(&["check"], &path);
    assert!(code == Some(2) && said.contains("a place needs a site"), "{said}");
}

#[test]
fn words_in_fields_refuse_or_limit_requests_and_a_reload_reads_them_again() {
    for arch in ARCHITECTURES {
        let (folder, path) =
            sites(&format!("field-rules = {{ User-Agent = 'crawlers' }}\n{}", arch_settings(arch)));
        let list = folder.path().join("crawlers");
        fs::write(&list, "# crawlers\nBadBot\nSlowBot 2/m\n").expect("it is written");
        let server = Server::start_configured(&path, &[]);
        let status = |agent: &str| {
            let fields = format!("Host: a.example\r\nUser-Agent: {agent}\r\nConnection: close");
            let request = format!("GET /a.txt HTTP/1.1\r\n{fields}\r\n\r\n");
            flash_tests::reply::only(&server.raw(request.as_bytes())).status
        };
        assert_eq!(
            ["x badbot/1", "Firefox", "SlowBot", "SlowBot", "SlowBot"].map(status),
            [403, 200, 200, 200, 429]
        );
        wait_for("its line", || {
            server.said().contains("a field of the request has a word that --field-rules refuses")
        });
        fs::write(&list, "Firefox\n").expect("it is written");
        server.signal(rustix::process::Signal::HUP);
        wait_for("the other list", || status("x badbot/1") == 200 && status("Firefox") == 403);
        server.stop();
        fs::write(&list, "a\nb 0/m\n").expect("it is written");
        let (code, _, said) = run(&["check"], &path);
        assert!(code == Some(2) && said.contains("crawlers:2: "), "{said}");
    }
}

#[test]
fn a_short_list_of_words_stands_in_the_configuration() {
    let (_folder, path) =
        sites("field-rules = { User-Agent = ['BadBot', 'Slow Bot 2/m'], Referer = ['casino'] }\n");
    let server = Server::start_configured(&path, &[]);
    let status = |field: &str| {
        let request =
            format!("GET /a.txt HTTP/1.1\r\nHost: a.example\r\n{field}\r\nConnection: close\r\n\r\n");
        flash_tests::reply::only(&server.raw(request.as_bytes())).status
    };
    let slow = "User-Agent: slow bot";
    let fields =
        ["User-Agent: badbot", "Referer: http://casino.example/", "Referer: badbot", slow, slow, slow];
    assert_eq!(fields.map(status), [403, 403, 200, 200, 200, 429]);
    server.stop();
    let (_, explained, said) = run(&["explain", "http://a.example/a.txt"], &path);
    let rule = "field-rules = User-Agent=BadBot, Slow Bot 2/m, Referer=casino  (";
    assert!(explained.contains(rule), "{explained}{said}");
    for (wrong, why) in [
        ("['a', 'b 0/m']", "the list of User-Agent:2: "),
        ("['a', 3]", "a list of its lines"),
        ("\"nofile\\n\"", "a list of its lines"),
    ] {
        let (_folder, path) = sites(&format!("field-rules = {{ User-Agent = {wrong} }}\n"));
        let (code, _, said) = run(&["check"], &path);
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
}

/// Not at the first line.
#[test]
fn an_error_about_two_keys_is_at_the_one_that_needs_the_other() {
    let (folder, path) =
        file("listen = ['http://127.0.0.1:0', 'https://127.0.0.1:0']\ntls = true\nroot = '.'\nhsts = '1d'\n");
    let (code, _, said) = run(&["check"], &path);
    assert!(
        code == Some(2) && said.contains("--hsts needs --https required") && said.contains(":4:1\n"),
        "{said}"
    );
    drop(folder);
}

/// What one key lacks hides nothing of the others.
#[test]
fn check_finds_errors_of_all_kinds_at_once_and_each_once() {
    let (folder, path) = file(
        "root = '/nowhere/site'\nlisst = true\nlisten = 'https://:443'\nuser = 'no-such-user'\n\
         tls = { certificate = '/nowhere/c.pem', key = '/nowhere/k.pem' }\nauth = '/nowhere/users'\n",
    );
    let (code, _, said) = run(&["check"], &path);
    assert!(code == Some(2) && said.ends_with("has 5 errors\n"), "{said}");
    for (line, why) in [
        ("1:8", "there is no such folder"),
        ("2:1", "unknown key `lisst`"),
        ("4:1", "cannot become user no-such-user"),
        ("5:1", "/nowhere/c.pem: cannot read it"),
        ("6:1", "cannot read /nowhere/users"),
    ] {
        assert!(said.contains(&format!(":{line}\n")) && said.contains(why), "{why}: {said}");
    }
    // A key that is not understood is no reason for others, and without a site nothing more is looked for.
    for (text, count) in [
        ("root = '/'\nlissten = 'https://:443'\nhttps = 'required'\n", "an error"),
        ("lisst = 1\n", "an error"),
    ] {
        fs::write(folder.path().join("flash.toml"), text).expect("it is written");
        let (_, _, said) = run(&["check"], &path);
        assert!(said.contains(&format!("flash.toml has {count}\n")), "{said}");
    }
}

#[test]
fn check_says_what_serve_would_find_later() {
    let site = site::make();
    let root = format!("root = '{}'\n", site.path().display());
    for (text, marked) in [
        ("helpers = 'process'\narch = 'mt'\n", "--helpers process needs an architecture"),
        ("early-data = 'on'\narch = 'mp'\n", "--early-data on does not work with --arch mp"),
        ("user = 'no-such-user'\n", "cannot become user no-such-user"),
        ("app = { '/a' = '/no/such/program' }\n", "cannot run /no/such/program"),
        ("fallback = 'none.html'\n", "--fallback /none.html: there is no such file"),
        ("spa = 'none.html'\n", "--spa /none.html: there is no such file"),
        ("user = 'no-such-user'\napp = { '/a' = '/no/such/program' }\n", "has 2 errors"),
        ("listen = [':8081', '127.0.0.1:8081']\n", "--listen 127.0.0.1:8081 is a part of --listen :8081"),
        ("listen = ['unix:a', 'unix:a']\n", "leave one of them out"),
        ("location = '/x'\n", "write a place in its site: \"/path\" = { list = true }"),
    ] {
        let (_folder, path) = file(&format!("{root}{text}"));
        let (code, out, said) = run(&["check"], &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.contains(marked) && said.contains(":2:1"), "{said}");
    }
    let sites = format!("[site.'a.example']\n{root}");
    for (text, marked, line) in [
        (format!("# one\ncgi = {{ '/a' = '/no/such' }}\n{sites}"), "cannot use /no/such", 2),
        (format!("{sites}# its own\napp = {{ '/a' = '/no/such' }}"), "cannot run /no/such", 4),
    ] {
        let (_folder, path) = file(&text);
        let (code, _, said) = run(&["check"], &path);
        assert!(code == Some(2) && said.contains(marked), "{said}");
        assert!(said.contains(&format!(":{line}:")), "{said}");
    }
    let (_folder, path) = file(&format!("{root}user = 'root'\nlisten = '127.0.0.1:0'\n"));
    let (code, out, said) = run(&["check"], &path);
    assert_eq!((code, out, said), (Some(0), format!("{} has no errors\n", path.display()), String::new()));
}

#[test]
fn a_file_that_names_no_folder_does_not_serve_the_present_one() {
    let listen = "listen = '127.0.0.1:0'\n";
    for (rest, where_) in
        [("include = 'sites/*.toml'\n", ":2:1"), ("[site]\n", ":2:2"), ("list = true\n", "")]
    {
        let (_folder, path) = file(&format!("{listen}{rest}"));
        for words in [&["check"][..], &["serve"]] {
            let (code, out, said) = run(words, &path);
            assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
            assert!(said.contains("there is no site, and no `root`") && said.contains(where_), "{said}");
        }
    }
    // All requests get this answer, so no folder is served.
    let (_folder, path) = file(&format!("{listen}redirect = 'https://example.org/'\n"));
    assert_eq!(run(&["check"], &path).0, Some(0));
}

#[test]
fn what_is_wrong_with_a_secret_does_not_show_it() {
    use std::os::unix::ffi::OsStrExt;
    let (_folder, path) = file("root = '/'\nheader = { X-A = { env = 'FLASH_SECRET' } }\n");
    let value = std::ffi::OsStr::from_bytes(b"s3cret\xff");
    let mut command = Command::new(program());
    command.args(["check", "--config"]).arg(&path).env("FLASH_SECRET", value);
    let output = command.output().expect("flash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("FLASH_SECRET: its value is not UTF-8") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("none.toml");
    for words in [&["check"][..], &["serve"]] {
        let (code, out, said) = run(words, &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.starts_with("flash: cannot read ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_folder_that_is_missing_may_come_later() {
    let (_folder, path) = file("root = 'nowhere'\n");
    assert_eq!(run(&["check"], &path).0, Some(2));
    assert_eq!(run(&["serve"], &path).0, Some(1));
}

#[test]
fn the_schema_is_json_for_editors() {
    let output = Command::new(program()).arg("schema").output().expect("flash runs");
    let schema = String::from_utf8(output.stdout).expect("it is text");
    assert!(output.status.success() && schema.contains("\"file-cache-bytes\": {"), "{schema}");
}

/// A folder with sites `a` and `b`, each with its own file of the same name, and what the file says of them.
fn sites(more: &str) -> (TempDir, PathBuf) {
    let text = format!(
        "listen = '127.0.0.1:0'\n{more}
        [site.'a.example']
        names = ['www.a.example']
        root = 'a'
        header = {{ X-Site = 'a' }}
        [site.'*.b.example']
        names = ['Bücher.example']
        root = 'b'
        list = true
        [site.'secret.b.example']
        root = 'b'
        deny = '/a.txt'\n"
    );
    let (folder, path) = file(&text);
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        site::write(&folder.path().join(name).join("a.txt"), format!("of {name}").as_bytes());
        fs::create_dir(folder.path().join(name).join("empty")).expect("a folder");
    }
    (folder, path)
}

fn ask(server: &Server, host: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let reply = flash_tests::reply::only(&server.raw(request.as_bytes()));
    (reply.status, String::from_utf8(reply.body).expect("it is text"))
}

#[test]
fn each_host_has_its_site_in_every_architecture() {
    for arch in ARCHITECTURES {
        let (folder, path) = sites(&arch_settings(arch));
        let server = Server::start_configured(&path, &[]);
        // Twice: looked up, and from the caches.
        for _ in 0..3 {
            for (host, expected) in [
                ("a.example", (200, "of a".to_owned())),
                ("x.b.example", (200, "of b".into())),
                ("WWW.A.Example.:8080", (200, "of a".into())),
                ("xn--bcher-kva.example", (200, "of b".into())),
            ] {
                assert_eq!(ask(&server, host, "/a.txt"), expected, "{arch}: {host}");
            }
            assert_eq!(ask(&server, "secret.b.example", "/a.txt").0, 404, "{arch}");
            assert_eq!(ask(&server, "c.example", "/a.txt").0, 421, "{arch}");
            assert_eq!(ask(&server, "a.example", "/empty/").0, 403, "{arch}");
            assert_eq!(ask(&server, "y.b.example", "/empty/").0, 200, "{arch}: it is listed");
        }
        let missing = server.raw(b"GET /none HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        assert!(String::from_utf8_lossy(&missing).contains("X-Site: a\r\n"), "{arch}");
        // A deploy of the second site, which is not the first that is served.
        fs::rename(folder.path().join("b"), folder.path().join("old")).expect("it is renamed");
        fs::create_dir(folder.path().join("b")).expect("a folder");
        site::write(&folder.path().join("b/a.txt"), b"new b");
        let give_up = std::time::Instant::now() + flash_tests::PATIENCE;
        while ask(&server, "x.b.example", "/a.txt").1 != "new b" {
            assert!(std::time::Instant::now() < give_up, "{arch}: the deploy is not seen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(ask(&server, "a.example", "/a.txt").1, "of a");
        let said = server.stop();
        assert!(said.contains("serving 3 sites at http://"), "{said}");
    }
}

#[test]
fn the_servers_settings_hold_for_sites_and_flags_win_over_both() {
    let (_folder, path) = sites("index = 'a.txt'\ndotfiles = true");
    let server = Server::start_configured(&path, &[]);
    assert_eq!(ask(&server, "a.example", "/"), (200, "of a".into()));
    drop(server);
    let server = Server::start_configured(&path, &["--index", "none", "--list"]);
    assert_eq!(ask(&server, "a.example", "/").0, 200, "it is listed");
    assert!(ask(&server, "a.example", "/").1.contains("a.txt"));
    drop(server);
    let (code, _, said) = run(&["serve", "/tmp"], &path);
    assert!(code == Some(2) && said.contains("leave DIR out"), "{said}");
}

#[test]
fn a_site_that_is_gone_harms_no_other() {
    let (folder, path) = sites("");
    let server = Server::start_configured(&path, &[]);
    fs::rename(folder.path().join("b"), folder.path().join("away")).expect("it is renamed");
    assert_eq!(ask(&server, "x.b.example", "/a.txt").0, 503, "it was never opened");
    assert_eq!(ask(&server, "a.example", "/a.txt"), (200, "of a".into()));
    fs::rename(folder.path().join("away"), folder.path().join("b")).expect("it is renamed");
    let give_up = std::time::Instant::now() + flash_tests::PATIENCE;
    while ask(&server, "x.b.example", "/a.txt") != (200, "of b".into()) {
        assert!(std::time::Instant::now() < give_up, "it is back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn ten_thousand_sites_cost_less_than_1_kib_each() {
    const COUNT: usize = 10_000;
    let (folder, path) = file("");
    for number in 0..100 {
        fs::create_dir(folder.path().join(format!("site-of-many-{number}"))).expect("a folder");
    }
    site::write(&folder.path().join("site-of-many-99/a.txt"), b"found");
    let site =
        |number| format!("[site.'host-{number}.example.org']\nroot = 'site-of-many-{}'\n", number % 100);
    let start = |count| {
        let sites: String = (0..count).map(site).collect();
        fs::write(&path, format!("listen = '127.0.0.1:0'\n{sites}")).expect("the file is written");
        Server::start_configured(&path, &[])
    };
    let one_kb = start(1).resident_kb();
    let server = start(COUNT);
    assert!(server.cpu_seconds() < 10.0, "{} s of processor time", server.cpu_seconds());
    let each_bytes = (server.resident_kb() - one_kb) * 1024 / COUNT as u64;
    assert!(each_bytes < 1024, "{each_bytes} bytes");
    assert_eq!(ask(&server, "host-9999.example.org", "/a.txt"), (200, "found".into()));
    assert_eq!(ask(&server, "host-10000.example.org", "/a.txt").0, 421);
}

/// Places with equal keys share them.
#[test]
fn a_thousand_sites_with_ten_places_each_start_soon_and_small() {
    const COUNT: usize = 1_000;
    let (folder, path) = file("");
    for number in 0..COUNT {
        fs::create_dir(folder.path().join(format!("site-{number}"))).expect("a folder");
    }
    site::write(&folder.path().join("site-999/a.txt"), b"found");
    let place = |number| match number % 2 {
        0 => format!("'/place/{number}' = {{ list = true }}\n"),
        _ => format!("'/place/{number}' = {{ redirect = '/a.txt' }}\n"),
    };
    let places: String = (0..10).map(place).collect();
    let sites = |places: &str| -> String {
        (0..COUNT).map(|site| format!("[site.'h{site}.example']\nroot = 'site-{site}'\n{places}")).collect()
    };
    let start = |sites: String| {
        fs::write(&path, format!("listen = '127.0.0.1:0'\n{sites}")).expect("the file is written");
        Server::start_configured(&path, &[])
    };
    let without_kb = start(sites("")).resident_kb();
    let server = start(sites(&places));
    let each_bytes = server.resident_kb().saturating_sub(without_kb) * 1024 / COUNT as u64 / 10;
    assert!(each_bytes < 192, "{each_bytes} bytes for each place");
    assert_eq!(ask(&server, "h999.example", "/a.txt"), (200, "found".into()));
    assert_eq!(ask(&server, "h999.example", "/place/8").0, 404);
    assert_eq!(ask(&server, "h0.example", "/place/9/x").0, 308);
}

/// Sites and places that see one folder share its descriptor, however they describe its files.
#[test]
fn sites_with_the_same_folder_take_one_descriptor() {
    const COUNT: usize = 100;
    let (folder, path) = file("");
    fs::create_dir(folder.path().join("shared")).expect("a folder");
    site::write(&folder.path().join("shared/a.txt"), b"found");
    let site = |number| {
        format!(
            "[site.'h{number}.example']\nroot = 'shared'\nheader = {{ X-Site = '{number}' }}\n'/p' = {{ index = 'b' }}\n"
        )
    };
    let sites: String = (0..COUNT).map(site).collect();
    fs::write(&path, format!("listen = '127.0.0.1:0'\n{sites}")).expect("the file is written");
    let server = Server::start_configured(&path, &[]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count();
    assert_eq!(ask(&server, "h0.example", "/a.txt"), (200, "found".into()));
    let before = descriptors();
    for number in 1..COUNT {
        let host = format!("h{number}.example");
        assert_eq!(ask(&server, &host, "/a.txt"), (200, "found".into()));
        assert_eq!(ask(&server, &host, "/p/").0, 404);
    }
    let after = descriptors();
    assert!(after < before + COUNT / 2, "{before} descriptors became {after}");
}

#[test]
fn a_limit_of_open_files_that_is_too_small_for_all_sites_is_told() {
    let (folder, path) = file("");
    let sites: String =
        (0..200).map(|number| format!("[site.'h{number}.example']\nroot = 's{number}'\n")).collect();
    for number in 0..200 {
        fs::create_dir(folder.path().join(format!("s{number}"))).expect("a folder");
    }
    fs::write(&path, format!("listen = '127.0.0.1:0'\n{sites}")).expect("the file is written");
    let script = "ulimit -n 256; exec \"$0\" serve --config \"$1\"";
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(program())
        .arg(&path)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let mut lines = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let told = loop {
        if std::io::BufRead::read_line(&mut lines, &mut said).expect("it is read") == 0 {
            break false;
        }
        if said.contains("sites have 200 folders") {
            break true;
        }
    };
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.id() as i32).expect("it has a number"),
        rustix::process::Signal::TERM,
    );
    child.wait().expect("it ends");
    assert!(told && said.contains("LimitNOFILE=512"), "{said}");
}
