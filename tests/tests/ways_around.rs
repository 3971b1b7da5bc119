//! Rules of places hold for what answers, in every architecture: no path info, index file, fallback, compressed copy, digest or local
//! redirect leads past them.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flash_tests::{ARCHITECTURES, Server, arch_settings, need, program, reply, set_mode, site};
use tempfile::TempDir;

/// The password is "bee".
const BOB: &str = "bob:$2b$04$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG";
const AS_BOB: &str = "Authorization: Basic Ym9iOmJlZQ==\r\n";

/// A rule, and what it answers.
const KEYS: [(&str, u16); 7] = [
    ("allow = '192.0.2.1'", 403),
    ("auth = 'staff.htpasswd'", 401),
    ("signed = { key = { file = 'links.key' } }", 403),
    ("methods = ['OPTIONS']", 405),
    ("gone = true", 410),
    ("redirect = '/elsewhere'", 308),
    ("limit = '1/h burst 1'", 429),
];

/// The places that have the rule.
const PLACES: [&str; 5] = ["/sub/index.html", "*.php", "/front.html", "/page.html", "*.pl"];

/// Other paths to what lies there.
const WAYS: [&str; 12] = [
    "/sub/",
    "/%73ub/.//?C=N",
    "/prog/",
    "/info.php/x",
    "/info.php/",
    "/none",
    "/page.html.gz",
    "/page.html.sha256",
    "/page.html.gz.sha256",
    "/cgi/a.pl/x",
    "/cgi/to?/sub/",
    "/cgi/to?/info.php/x",
];

const PHP: &str = "fastcgi = { '.php' = 'unix:none.sock' }\n";

/// A site for each rule, and one without any.
fn made(arch: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in [
        "sub/index.html",
        "sub/x.html",
        "front.html",
        "page.html",
        "page.html.gz",
        "prog/index.php",
        "info.php",
    ] {
        let file = folder.path().join("root").join(name);
        fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("a folder");
        site::write(&file, format!("of {name}").as_bytes());
    }
    fs::write(folder.path().join("staff.htpasswd"), BOB).expect("the file is written");
    site::write(&folder.path().join("links.key"), b"0123456789abcdef");
    for (name, says) in [("to", "Location: $QUERY_STRING"), ("a.pl", "Content-Type: text/plain")] {
        let script = folder.path().join("programs").join(name);
        fs::create_dir_all(script.parent().expect("a folder")).expect("a folder");
        fs::write(&script, format!("#!/bin/sh\nprintf \"{says}\\n\\n\"\n")).expect("a script");
        set_mode(&script, 0o755);
    }
    let mut config = format!(
        "{}listen = '127.0.0.1:0'\nadmin = 'off'\nprocesses = 2\nrevalidate = '0s'\ndigests = true\ncgi = {{ '/cgi' = 'programs' }}\n",
        arch_settings(arch)
    );
    let site = |host: &str, rule: &str| {
        let places = PLACES.map(|place| format!("'{place}' = {{ {rule} }}\n")).concat();
        let places = if rule.is_empty() { "" } else { &places };
        format!("[site.'{host}']\nroot = 'root'\n{PHP}fallback = '/front.html'\n{places}")
    };
    config.push_str(&site("open", ""));
    for (rule, _) in KEYS {
        config.push_str(&site(host(rule), rule));
    }
    let denied = "deny = ['index.html', '*.php', '/page.html', '*.pl']";
    config.push_str(&format!("[site.'deny']\nroot = 'root'\n{PHP}{denied}\n"));
    // A script by the rules of its own path alone.
    config.push_str("[site.'source']\nroot = 'root'\nindex = ['index.php', 'index.html']\n");
    config.push_str(&format!("'*.php' = {{ {} }}\n", PHP.trim_end()));
    let path = folder.path().join("flash.toml");
    fs::write(&path, config).expect("the file is written");
    (folder, path)
}

fn host(rule: &str) -> &str {
    rule.split(' ').next().expect("a key")
}

fn ask(server: &Server, method: &str, host: &str, target: &str, fields: &str) -> reply::Reply {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
    reply::all(&server.raw(head.as_bytes()), |_| method == "HEAD").remove(0)
}

fn status_over_http_2(server: &Server, host: &str, target: &str) -> u16 {
    let mut curl = Command::new(need("curl", "curl"));
    curl.args(["-sS", "--max-time", "20", "--http2-prior-knowledge", "--path-as-is", "-o", "/dev/null"]);
    curl.args(["-w", "%{http_code}", "-H", &format!("Host: {host}")]);
    let output = curl.arg(format!("http://{}{target}", server.address)).output().expect("curl runs");
    String::from_utf8_lossy(&output.stdout).parse().expect("a status")
}

#[test]
fn no_way_leads_around_a_rule() {
    for arch in ARCHITECTURES {
        let (_folder, path) = made(arch);
        let server = Server::start_configured(&path, &[]);
        for target in WAYS {
            let open = ask(&server, "GET", "open", target, "").status;
            assert!(matches!(open, 200 | 502 | 503), "{arch}: {target}: {open}");
        }
        // From now on, it is used up.
        assert_ne!(ask(&server, "GET", "limit", "/sub/", "").status, 429, "{arch}");
        for (rule, expected) in KEYS {
            for target in WAYS {
                for method in ["GET", "HEAD"] {
                    let reply = ask(&server, method, host(rule), target, "");
                    assert_eq!(reply.status, expected, "{arch}: {rule}: {method} {target}");
                    assert!(
                        !String::from_utf8_lossy(&reply.body).contains("of "),
                        "{arch}: {rule}: {target}"
                    );
                }
                if matches!(expected, 401 | 403) {
                    let status = status_over_http_2(&server, host(rule), target);
                    assert_eq!(status, expected, "{arch}, HTTP/2: {rule}: {target}");
                }
            }
        }
        for target in WAYS {
            let reply = ask(&server, "GET", "deny", target, "");
            assert!(matches!(reply.status, 403 | 404), "{arch}: deny: {target}: {}", reply.status);
        }
        let source =
            ["/prog/", "/prog/index.php", "/info.php/x"].map(|path| ask(&server, "GET", "source", path, ""));
        let seen = source.map(|reply| (reply.status, String::from_utf8_lossy(&reply.body).contains("of ")));
        assert!(
            seen[0] == (403, false) && seen[1..].iter().all(|(status, is_sent)| *status >= 400 && !is_sent),
            "{arch}: {seen:?}"
        );
        // Whoever may, gets in by each of them, and what needs a log-in is for nobody else.
        let index = ask(&server, "GET", "auth", "/sub/", AS_BOB);
        assert_eq!((index.status, &*index.body), (200, &b"of sub/index.html"[..]), "{arch}");
        assert_eq!(index.field("Cache-Control"), Some("private"), "{arch}");
        for target in WAYS {
            let status = ask(&server, "GET", "auth", target, AS_BOB).status;
            assert!(matches!(status, 200 | 502 | 503), "{arch}: {target}: {status}");
        }
        assert_eq!(ask(&server, "GET", "allow", "/sub/x.html", "").status, 200, "{arch}");
        assert_eq!(ask(&server, "GET", "methods", "/sub/", "").field("Allow"), Some("OPTIONS"), "{arch}");
        server.stop();
    }
}

fn flash(words: &[&str], config: &Path) -> (Option<i32>, String) {
    let output =
        Command::new(program()).args(words).arg("--config").arg(config).output().expect("flash runs");
    let [out, error] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out + &error)
}

#[test]
fn an_explanation_names_what_answers_and_its_rules() {
    let (folder, path) = made("amped");
    let explain = |url: &str, more: &[&str]| flash(&[&["explain", url], more].concat(), &path).1;
    let said = explain("http://auth/sub/", &[]);
    for line in
        ["answers   /sub/index.html", "place     /sub/index.html", "rule      auth = ", "status    401"]
    {
        assert!(said.contains(line), "no {line} in {said}");
    }
    assert!(said.contains("log-in    needed"), "{said}");
    let right = AS_BOB.trim_end();
    assert!(explain("http://auth/sub/", &["--header", right]).contains("status    200"));
    assert!(explain("http://gone/none", &[]).contains("answers   /front.html"));
    let json: serde_json::Value =
        serde_json::from_str(&explain("http://gone/sub/", &["--json"])).expect("JSON");
    assert_eq!((&json["answers"]["path"], &json["status"]), (&"/sub/index.html".into(), &410.into()));
    assert_eq!(json["answers"]["rules"][0]["text"], "gone = true", "{json}");
    assert!(explain("http://gone/sub/index.html", &[]).contains("status    410"));
    let json: serde_json::Value =
        serde_json::from_str(&explain("http://gone/sub/x.html", &["--json"])).expect("JSON");
    assert!(json["answers"].is_null() && json["status"] == 200, "{json}");
    drop(folder);
}

#[test]
fn what_never_matches_or_answers_is_a_warning_with_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("a")).expect("a folder");
    for name in ["index.html", "front.html", "old/front.html", "x.txt", "shown/b", ".hidden/b", "elsewhere/b"]
    {
        let file = folder.path().join("a").join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        site::write(&file, b"");
    }
    let path = folder.path().join("flash.toml");
    let config = "
[site.'a.example']
root = 'a'
deny = ['/elsewhere', '*.sql']
files = { '/p1' = 'a/shown', '/p2' = 'a/.hidden', '/p3' = 'a/elsewhere', '/p4' = '.' }
'/app' = { strip-prefix = '/app', deny = ['/admin', '*.key', '/app/right', 'name'] }
'/app/deep' = { deny = ['/app/other'] }
'/up' = { no-programs = ['/upper'], cache-control = ['/assets=max-age=9', 'no-cache'] }
'/over' = { deny = ['/over/x/y', '/over/z'] }
'/over/x' = { deny = ['*.txt'] }
'/api' = { fastcgi = { '/apis' = '127.0.0.1:9', '/' = '127.0.0.1:9', '/api/v1' = '127.0.0.1:9' } }
'/old' = { gone = true }
'/late' = { fallback = '/old/front.html' }
'*.php' = { deny = ['/anywhere'] }
'/kept' = { deny = ['/elsewhere', '*.sql'] }
";
    fs::write(&path, config).expect("the file is written");
    let (code, said) = flash(&["check"], &path);
    assert_eq!(code, Some(0), "{said}");
    let wrong = [
        (5, "clients can request its files below /shown, because its folder is in that of the site"),
        (
            6,
            "/admin never matches here: rules name paths of requests, as /app does, and strip-prefix does not change that: write /app/admin",
        ),
        (7, "/app/other never matches here"),
        (8, "/upper never matches here"),
        (8, "/assets never matches here"),
        (9, "/over/x/y never matches here"),
        (11, "/apis never matches here"),
        (13, "/old/front.html never answers: its own place is gone"),
    ];
    for (line, text) in wrong {
        let place = format!("{}:{line}:", path.display());
        let is_it = |one: &str| one.starts_with(text) && one.contains(&place);
        assert!(said.split("warning: ").any(is_it), "no {text} at line {line} in\n{said}");
    }
    assert_eq!(said.matches("warning: ").count(), wrong.len(), "{said}");
}
