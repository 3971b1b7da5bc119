//! `flash explain` says what the server sends: the same status and fields, for many URLs of a configuration with everything.

#![forbid(unsafe_code)]

#[path = "tls/client.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod client;

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use client::Authority;
use flash_tests::{Server, is_superuser, own_addresses, program, set_mode, site};
use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;

const COUNT: usize = 1_000;

#[test]
fn it_answers_with_the_rights_of_the_user() {
    if !is_superuser("becoming another user") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let open = |path: &Path| set_mode(path, 0o755);
    open(folder.path());
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    site::write(&site.join("open.txt"), b"open");
    site::write(&site.join("closed.txt"), b"closed");
    open(&site);
    set_mode(site.join("closed.txt"), 0o600);
    let explained = |user: &str| {
        let file = folder.path().join("flash.toml");
        fs::write(&file, format!("root = 'site'\nlisten = ':80'\n{user}")).unwrap();
        let urls = ["http://localhost/open.txt", "http://localhost/closed.txt"];
        let output = Command::new(program()).args(["explain", "--config"]).arg(&file).args(urls).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let statuses = |text: &str| text.matches("status    200").count();
    assert_eq!(statuses(&explained("")), 2);
    let text = explained("user = 'nobody'\n");
    assert!(statuses(&text) == 1 && text.contains("status    403"), "{text}");
}

const CONFIG: &str = "
listen = ['HTTP', 'https://HTTPS']
target-bytes-max = '90'
tls = { certificate = 'all.pem', key = 'all-key.pem' }
index = ['index.html', 'start.html']
header = { X-Server = '1' }
[site.'a.example']
names = ['*.a.example']
root = 'a'
cache-control = 'no-cache'
header = { X-Frame-Options = 'DENY' }
'/docs' = { list = true, header = { X-Docs = '1' } }
'/docs/old' = { list = false, redirect = '/docs{rest}' }
'/gone' = { gone = true, no-header = 'X-Frame-Options' }
'/read' = { methods = ['GET'], charset = 'iso-8859-1' }
'/b' = { root = 'b', strip-prefix = '/b', error-pages = 'pages' }
'/hidden' = { dotfiles = true, deny = '*.key' }
'*.css' = { cache-control = 'max-age=9', header = { X-Css = '1' } }
[site.'spa.example']
root = 'b'
spa = 'index.html'
no-precompressed = true
[site.'www.a.example']
redirect = { to = 'https://a.example{path}', status = 301 }
'/.well-known' = { root = 'a' }
[site.'secure.example']
names = ['bücher.example']
root = 'b'
https = 'required'
hsts = '1h'
'/b' = { redirect = '/d{rest}' }
'/limited' = { root = 'a', strip-prefix = '/limited', limit = '5000/s burst 5000' }
'/once' = { root = 'a', strip-prefix = '/once', limit = '1/h burst 1' }
[site.'app.example']
root = 'b'
fallback = '/index.php'
fastcgi = { '.php' = 'unix:none.sock' }
";

const NAMES: [&str; 17] = [
    "a/index.html",
    "a/404.html",
    "a/style.css",
    "a/style.css.gz",
    "a/docs/a.txt",
    "a/docs/style.css",
    "a/docs/old/a.txt",
    "a/read/a.txt",
    "a/read/b/start.html",
    "a/hidden/.dot",
    "a/hidden/a.key",
    "a/.well-known/a.txt",
    "a/sp ace/ü.txt",
    "b/index.html",
    "b/index.php",
    "b/d/a.txt",
    "pages/404.html",
];

fn made() -> Made {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in NAMES {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("a folder");
        site::write(&file, format!("of {name}").as_bytes());
    }
    site::write(&folder.path().join("a/large.bin"), &vec![b'x'; 3 << 20]);
    let [http, https] = own_addresses();
    let config = CONFIG.replace("HTTPS", &https.to_string()).replace("'HTTP'", &format!("'{http}'"));
    let path = folder.path().join("flash.toml");
    fs::write(&path, config).expect("the file is written");
    let authority = Authority::new();
    let (certificate, key) = authority.issue("all", &[NAME]);
    fs::copy(certificate, folder.path().join("all.pem")).expect("a certificate");
    fs::copy(key, folder.path().join("all-key.pem")).expect("a key");
    Made { folder, path, https, trust: authority.client() }
}

/// What the certificate is for.
const NAME: &str = "a.example";

struct Made {
    folder: TempDir,
    path: PathBuf,
    /// The listener with TLS.
    https: SocketAddr,
    trust: Arc<ClientConfig>,
}

/// A whole answer, over TLS or not.
fn answer(made: &Made, server: &Server, is_https: bool, request: &[u8]) -> Vec<u8> {
    if !is_https {
        return server.raw(request);
    }
    let mut stream = client::stream_at(made.https, &made.trust, NAME);
    stream.write_all(request).expect("the server takes the request");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("a close_notify comes before the end");
    bytes
}

/// URLs of all parts of the sites, and wrong ones, from a fixed seed.
fn urls() -> Vec<Url> {
    const HOSTS: [&str; 14] = [
        "a.example",
        "x.a.example",
        "spa.example",
        "www.a.example",
        "app.example",
        "A.EXAMPLE:80",
        "a.example.",
        "SpA.Example.:8080",
        "c.example",
        "a.example..",
        "secure.example",
        "Secure.Example.",
        "xn--bcher-kva.example",
        "[::1]",
    ];
    const LONG: &str = "a-segment-that-together-with-others-is-longer-than-a-target-may-be";
    const SEGMENTS: [&str; 26] = [
        LONG,
        "limited",
        "docs",
        "docs/old",
        "gone",
        "read",
        "b",
        "hidden",
        "d",
        "style.css",
        "a.txt",
        "index.html",
        "large.bin",
        "none",
        ".dot",
        "a.key",
        "..",
        ".",
        "%2e%2e",
        "sp%20ace",
        "%C3%BC.txt",
        "a%2fb",
        ".well-known",
        "docs..",
        "index.php",
        "",
    ];
    let mut state = 7_u64;
    let mut next = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % most
    };
    let url = |_| {
        let host = HOSTS[next(HOSTS.len())];
        let path: String = (0..1 + next(4)).map(|_| format!("/{}", SEGMENTS[next(SEGMENTS.len())])).collect();
        let query = ["", "", "?q=1", "?C=S&O=D"][next(4)];
        (["http", "http", "https"][next(3)], host, format!("{path}{query}"))
    };
    (0..COUNT).map(url).collect()
}

/// A scheme, a host and a target.
type Url = (&'static str, &'static str, String);

fn explained(path: &Path, urls: &[Url], more: &[&str]) -> Vec<Value> {
    let output = Command::new(program())
        .args(["explain", "--json", "--config"])
        .arg(path)
        .args(more)
        .args(urls.iter().map(|(scheme, host, target)| format!("{scheme}://{host}{target}")))
        .output()
        .expect("flash runs");
    let said = String::from_utf8(output.stderr).expect("it is text");
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).expect("it is text");
    lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

#[test]
fn a_thousand_urls_are_explained_as_they_are_answered() {
    let made = made();
    let urls = urls();
    let server = Server::start_configured(&made.path, &[]);
    let (mut statuses, mut programs) = (std::collections::BTreeMap::<u16, usize>::new(), 0);
    for (method, count) in
        [("GET", COUNT), ("POST", COUNT), ("HEAD", COUNT / 5), ("OPTIONS", COUNT / 5), ("DELETE", COUNT / 5)]
    {
        let fields = if method == "GET" { "Accept-Encoding: gzip\r\n" } else { "" };
        let more = if method == "GET" { ["--header", "Accept-Encoding: gzip"] } else { ["--method", method] };
        let explanations = explained(&made.path, &urls[..count], &more);
        assert_eq!(explanations.len(), count);
        for ((scheme, host, target), explanation) in urls.iter().zip(&explanations) {
            let request =
                format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
            let bytes = answer(&made, &server, *scheme == "https", request.as_bytes());
            let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a head ends");
            let head = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let status: u16 = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
            let shown = format!("{method} {scheme}://{host}{target}\n{head}\n{explanation:#}");
            if !explanation["program"].is_null() {
                // Nothing listens there, and after a while nothing is tried.
                assert!(matches!(status, 502 | 503), "{shown}");
                programs += 1;
                continue;
            }
            *statuses.entry(status).or_default() += 1;
            assert_eq!(explanation["status"], status, "{shown}");
            let is_same = |name: &str| !matches!(name, "Date" | "Connection");
            let sent: Vec<(&str, &str)> = head
                .split("\r\n")
                .skip(1)
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| is_same(name))
                .collect();
            let said: Vec<(&str, &str)> = explanation["fields"]
                .as_array()
                .expect("it has fields")
                .iter()
                .map(|field| (field[0].as_str().expect("a name"), field[1].as_str().expect("a value")))
                .filter(|(name, _)| is_same(name))
                .collect();
            assert_eq!(said, sent, "{shown}");
        }
    }
    for status in [200, 301, 308, 400, 404, 405, 410, 414, 421] {
        assert!(statuses.contains_key(&status), "no URL leads to {status}: {statuses:?}");
    }
    assert!(programs > 0);
}

#[test]
fn an_explanation_names_lines_and_files() {
    let Made { folder, path, .. } = made();
    let shown = fs::canonicalize(folder.path()).expect("it is there");
    let ask = |host, target: &str, more: &[&str]| {
        explained(&path, &[("http", host, target.to_owned())], more).remove(0)
    };
    let found = ask("x.a.example:8080", "/docs/style.css?x", &[]);
    let at = |line: usize| format!("{}:{line}", path.display());
    assert!(found["listener"].is_null(), "nobody listens at port 8080: {found}");
    assert_eq!((&found["site"]["text"], &found["site"]["at"]), (&"a.example".into(), &at(7).into()));
    let places: Vec<_> =
        found["places"].as_array().expect("a list").iter().map(|place| place["text"].clone()).collect();
    assert_eq!(places, ["/docs", "*.css"]);
    let rules = found["rules"].as_array().expect("a list");
    for (text, line) in [
        ("index = index.html, start.html", 5),
        ("header = X-Server: 1", 6),
        ("header = X-Frame-Options: DENY", 11),
        ("list = true", 12),
        ("header = X-Docs: 1", 12),
        ("cache-control = max-age=9", 18),
        ("header = X-Css: 1", 18),
    ] {
        assert!(rules.iter().any(|rule| rule["text"] == text && rule["at"] == at(line)), "{text}: {rules:?}");
    }
    assert!(!rules.iter().any(|rule| rule["text"] == "cache-control = no-cache"), "{rules:?}");
    assert_eq!(found["found"]["file"], shown.join("a/docs/style.css").display().to_string());
    let coded = ask("a.example", "/style.css", &["--header", "Accept-Encoding: gzip"]);
    assert_eq!(coded["found"]["file"], shown.join("a/style.css.gz").display().to_string());
    let stripped = ask("a.example", "/b/d/a.txt", &[]);
    assert_eq!(stripped["found"]["file"], shown.join("b/d/a.txt").display().to_string());
    let program = ask("app.example", "/made/up", &["--method", "POST"]);
    assert_eq!(
        program["program"]["text"],
        format!("fastcgi at unix:{} for .php", folder.path().join("none.sock").display())
    );
    assert_eq!(program["program"]["script"], shown.join("b/index.php").display().to_string());
    assert!(ask("c.example", "/", &[])["site"].is_null());
    // Each request is its client's first, so no limit is used up by another one.
    let once = ("https", "secure.example", "/once/style.css".to_owned());
    for found in explained(&path, &[once.clone(), once.clone(), once], &[]) {
        assert_eq!(found["status"], 200, "{found}");
    }
    let output = Command::new(flash_tests::program())
        .args(["explain", "http://a.example/read/a.txt", "--config"])
        .arg(&path)
        .output();
    let text = String::from_utf8(output.expect("flash runs").stdout).expect("it is text");
    for line in [
        "site      a.example",
        "place     /read",
        "rule      methods = GET",
        "status    200",
        "field     Content-Type: text/plain; charset=iso-8859-1",
    ] {
        assert!(text.contains(&format!("  {line}")), "{line} is not in\n{text}");
    }
}
