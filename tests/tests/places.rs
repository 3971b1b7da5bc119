//! Places of sites with the real program: what they set, what they inherit, and how they stay apart.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use flash_tests::reply::Reply;
use flash_tests::{ARCHITECTURES, Server, arch_settings, site};
use rustix::process::Signal;
use tempfile::TempDir;

/// A folder of files, and a configuration file beside it.
fn files(text: &str, names: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flash.toml");
    fs::write(&path, text).expect("the file is written");
    for name in names {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("a folder");
        site::write(&file, format!("of {name}").as_bytes());
    }
    (folder, path)
}

fn ask(server: &Server, path: &str) -> Reply {
    ask_host(server, path, "a.example")
}

fn body(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

const PLACES: &str = "
listen = '127.0.0.1:0'
header = { X-Of = 'server', X-Server = '1' }
[site.'a.example']
root = 'a'
header = { X-Of = 'site' }
cache-control = 'no-cache'
'/docs' = { list = true, header = { X-Of = 'docs' } }
'/docs/old' = { list = false, cache-control = 'max-age=60' }
'/other' = { root = 'b', index = 'start.html' }
'*.css' = { cache-control = 'max-age=9', header = { X-Css = '1' } }
'/hidden' = { deny = '*.key', dotfiles = true }
";

const NAMES: [&str; 10] = [
    "a/index.html",
    "a/style.css",
    "a/docs/a.txt",
    "a/docs/style.css",
    "a/docs/old/a.txt",
    "a/hidden/.dot",
    "a/hidden/a.key",
    "a/.dot",
    "b/other/start.html",
    "b/other/a.txt",
];

#[test]
fn places_have_rules_of_their_own_in_every_architecture() {
    for arch in ARCHITECTURES {
        let (_folder, path) = files(&format!("{}{PLACES}", arch_settings(arch)), &NAMES);
        let server = Server::start_configured(&path, &[]);
        // From the disk, and from the caches.
        for _ in 0..3 {
            for (path, status, content, of, caching) in [
                ("/", 200, "of a/index.html", "site", Some("no-cache")),
                ("/style.css", 200, "of a/style.css", "site", Some("max-age=9")),
                ("/docs/a.txt", 200, "of a/docs/a.txt", "docs", Some("no-cache")),
                ("/docs/style.css", 200, "of a/docs/style.css", "docs", Some("max-age=9")),
                ("/docs/old/a.txt", 200, "of a/docs/old/a.txt", "docs", Some("max-age=60")),
                ("/docs/old/", 403, "", "docs", None),
                ("/docs/", 200, "", "docs", None),
                ("/other/", 200, "of b/other/start.html", "site", Some("no-cache")),
                ("/other/a.txt", 200, "of b/other/a.txt", "site", Some("no-cache")),
                ("/other/../index.html", 200, "of a/index.html", "site", Some("no-cache")),
                ("/hidden/.dot", 200, "of a/hidden/.dot", "site", Some("no-cache")),
                ("/hidden/a.key", 404, "", "site", None),
                ("/.dot", 404, "", "site", None),
            ] {
                let reply = ask(&server, path);
                assert_eq!((reply.status, reply.field("X-Of")), (status, Some(of)), "{arch}: {path}");
                assert_eq!(
                    (reply.field("Cache-Control"), reply.field("X-Server")),
                    (caching, Some("1")),
                    "{arch}: {path}"
                );
                assert!(content.is_empty() || body(&reply) == content, "{arch}: {path}: {}", body(&reply));
            }
            assert_eq!(ask(&server, "/style.css").field("X-Css"), Some("1"));
            assert_eq!(ask(&server, "/docs/a.txt").field("X-Css"), None);
        }
    }
}

const RULES: &str = "
listen = '127.0.0.1:0'
[site.'www.a.example']
redirect = 'https://a.example{path}'
'/.well-known' = { root = 'a' }
[site.'a.example']
root = 'a'
header = { X-Frame-Options = 'DENY' }
'/old' = { redirect = '/new{rest}' }
'/old/kept' = { list = true }
'/moved' = { redirect = { to = 'https://{host}/there?from={path}#top', status = 302 } }
'=/old/kept/a.txt' = { header = { X-Frame-Options = 'SAMEORIGIN' } }
'=/short' = { redirect = { to = '/new?from=short?', status = 301 } }
'/gone' = { gone = true, no-header = 'x-frame-options' }
'/read' = { methods = ['GET'] }
'/latin' = { charset = 'iso-8859-1' }
'/bare' = { charset = 'off' }
'/assets' = { root = 'b', strip-prefix = '/assets', error-pages = 'pages', list = true }
'/app' = { root = 'spa', strip-prefix = '/app', spa = 'index.html' }
";

const RULES_NAMES: [&str; 15] = [
    "a/index.html",
    "a/.well-known/a.txt",
    "a/old/kept/a.txt",
    "a/old/a.txt",
    "a/read/a.txt",
    "a/latin/a.txt",
    "a/latin/a.png",
    "a/bare/a.html",
    "a/secret.txt",
    "b/a.css",
    "b/d/index.html",
    "b/d/e/a.txt",
    "pages/404.html",
    "spa/index.html",
    "spa/app.js",
];

fn raw(server: &Server, method: &str, host: &str, target: &str, more: &str) -> Reply {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
    flash_tests::reply::all(&server.raw(request.as_bytes()), |_| method == "HEAD").remove(0)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn rules_answer_in_every_architecture() {
    for arch in ARCHITECTURES {
        let (_folder, path) = files(&format!("{}{RULES}", arch_settings(arch)), &RULES_NAMES);
        let server = Server::start_configured(&path, &[]);
        for _ in 0..2 {
            for (host, target, status, location) in [
                ("www.a.example", "/x/y?q=1", 308, "https://a.example/x/y?q=1"),
                (
                    "www.a.example:8080",
                    "//evil.example/%0d%0aX:y",
                    308,
                    "https://a.example/evil.example/%0D%0AX:y",
                ),
                ("a.example", "/old", 308, "/new"),
                ("a.example", "/old/a.txt?q", 308, "/new/a.txt?q"),
                ("a.example", "/old/a%20b", 308, "/new/a%20b"),
                ("a.example", "/short?q=1", 301, "/new?from=short"),
                ("A.example:80", "/moved/x?q=1", 302, "https://A.example/there?from=/moved/x&q=1#top"),
            ] {
                for method in ["GET", "HEAD", "POST"] {
                    let reply = raw(&server, method, host, target, "");
                    let found = (reply.status, reply.field("Location"));
                    assert_eq!(found, (status, Some(location)), "{arch}: {method} {host} {target}");
                }
            }
            let framed = |target| {
                raw(&server, "GET", "a.example", target, "").field("X-Frame-Options").map(str::to_owned)
            };
            assert_eq!(framed("/old/kept/a.txt").as_deref(), Some("SAMEORIGIN"), "{arch}");
            assert_eq!(framed("/old/kept/").as_deref(), Some("DENY"), "{arch}");
            for (target, status, content) in [
                ("/short/x", 404, ""),
                ("/old/kept/a.txt", 200, "of a/old/kept/a.txt"),
                ("/gone", 410, ""),
                ("/gone/x", 410, ""),
                ("/assets/a.css", 200, "of b/a.css"),
                ("/assets/d/", 200, "of b/d/index.html"),
                ("/assets/d/e/a.txt", 200, "of b/d/e/a.txt"),
                ("/assets/none", 404, "of pages/404.html"),
                ("/assets../a/secret.txt", 404, ""),
                ("/assets/../secret.txt", 200, "of a/secret.txt"),
                ("/assets/..%2fa/secret.txt", 404, ""),
                ("/assets/assets/a.css", 404, "of pages/404.html"),
                ("/a.css", 404, ""),
                ("/app/", 200, "of spa/index.html"),
                ("/app/some/page", 200, "of spa/index.html"),
                ("/app/app.js", 200, "of spa/app.js"),
                ("/app/none.js", 404, ""),
                ("/page", 404, ""),
            ] {
                let reply = ask(&server, target);
                assert_eq!(reply.status, status, "{arch}: {target}: {}", body(&reply));
                assert!(content.is_empty() || body(&reply) == content, "{arch}: {target}: {}", body(&reply));
                let framing = reply.field("X-Frame-Options").is_some();
                assert_eq!(framing, !target.starts_with("/gone"), "{arch}: {target}");
            }
            let listed = ask(&server, "/assets/d/e/");
            assert!(listed.status == 200 && body(&listed).contains("a.txt"), "{arch}: {}", body(&listed));
            let slash = ask(&server, "/assets");
            assert_eq!((slash.status, slash.field("Location")), (301, Some("/assets/")), "{arch}");
            for (target, kind) in [
                ("/latin/a.txt", "text/plain; charset=iso-8859-1"),
                ("/latin/a.png", "image/png"),
                ("/bare/a.html", "text/html"),
                ("/secret.txt", "text/plain; charset=utf-8"),
            ] {
                assert_eq!(ask(&server, target).field("Content-Type"), Some(kind), "{arch}: {target}");
                let part = raw(&server, "GET", "a.example", target, "Range: bytes=0-0\r\n");
                assert_eq!((part.status, part.field("Content-Type")), (206, Some(kind)), "{arch}: {target}");
            }
            for (method, status, allow) in [
                ("GET", 200, None),
                ("HEAD", 200, None),
                ("POST", 405, Some("GET, HEAD")),
                ("OPTIONS", 405, Some("GET, HEAD")),
                ("DELETE", 405, Some("GET, HEAD")),
                ("BREW", 501, None),
            ] {
                let reply = raw(&server, method, "a.example", "/read/a.txt", "");
                assert_eq!((reply.status, reply.field("Allow")), (status, allow), "{arch}: {method}");
            }
            assert_eq!(raw(&server, "GET", "www.a.example", "/.well-known/a.txt", "").status, 200, "{arch}");
            assert_eq!(raw(&server, "GET", "a@b", "/moved", "").status, 400, "{arch}");
        }
    }
}

/// Flags are the same rules for the only site.
const FIXED: &str = "
listen = '127.0.0.1:0'
[site.'a.example']
root = 'a'
respond = { status = 503, retry-after = '10m', except = ['10.0.0.0/8'] }
header = { X-Of = 'site' }
'= /health' = { respond = { body = 'ok', type = 'text/plain' } }
'/open' = { respond = false }
'/none' = { respond = { status = 204 } }
'/json' = { respond = { status = 201, body = '{}', type = 'application/json' }, methods = 'POST' }
'/app' = { respond = false, spa = 'index.html' }
'/app/api' = { spa = false }
[site.'none.example']
respond = { status = 404, body = 'no' }
[site.'proxied.example']
root = 'a'
respond = { status = 503, except = '127.0.0.1' }
";

/// A text, a status, a page; and what takes them back.
#[test]
fn places_respond_alike_to_every_request() {
    for arch in ARCHITECTURES {
        let names = ["a/index.html", "a/open/a.txt", "a/errors/503.html"];
        let (_folder, path) = files(&format!("{}{FIXED}", arch_settings(arch)), &names);
        let server = Server::start_configured(&path, &[]);
        let reply = ask(&server, "/a.txt?x");
        assert_eq!((reply.status, reply.field("Retry-After")), (503, Some("600")), "{arch}");
        assert!(body(&reply).contains("<h1>503"), "{arch}: {}", body(&reply));
        let reply = ask(&server, "/health");
        assert_eq!((reply.status, reply.field("Content-Type")), (200, Some("text/plain")), "{arch}");
        assert_eq!((reply.field("X-Of"), &*body(&reply)), (Some("site"), "ok"), "{arch}");
        for (path, status, text) in [
            ("/health/", 503, None),
            ("/open/a.txt", 200, Some("of a/open/a.txt")),
            ("/none", 204, Some("")),
            ("/json", 405, None),
            ("/app/x", 200, Some("of a/index.html")),
            ("/app/api/x", 404, None),
        ] {
            let reply = ask(&server, path);
            assert_eq!(reply.status, status, "{arch}: {path}");
            assert!(text.is_none_or(|text| body(&reply) == text), "{arch}: {path}: {}", body(&reply));
        }
        assert_eq!(ask(&server, "/none").field("Content-Length"), None, "RFC 9110 §8.6");
        let other = |method: &str, path: &str, host: &str| {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nConnection: close\r\n\r\na=b"
            );
            flash_tests::reply::only(&server.raw(request.as_bytes()))
        };
        let reply = other("POST", "/json", "a.example");
        assert_eq!((reply.status, &*body(&reply)), (201, "{}"), "{arch}");
        assert_eq!((other("GET", "/x", "none.example").status), 404, "{arch}");
        assert_eq!(body(&other("GET", "/x", "none.example")), "no", "{arch}");
        assert_eq!(ask_host(&server, "/", "proxied.example").status, 200, "{arch}: the client is excepted");
    }
}

fn ask_host(server: &Server, path: &str, host: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    flash_tests::reply::only(&server.raw(request.as_bytes()))
}

/// A file of a hundred thousand lines, in a site and its places, with and without its query. A reload reads it again.
#[test]
fn paths_move_as_a_file_says() {
    let text = "listen = '127.0.0.1:0'
[site.'a.example']
root = 'a'
redirects = 'moved.txt'
'/docs' = { header = { X-Of = 'docs' } }
'/other' = { redirect = '/b' }
";
    let (folder, config) = files(text, &["a/index.html", "a/docs/a.txt"]);
    let moved = folder.path().join("moved.txt");
    let mut lines: String = (0..100_000).map(|number| format!("/old/{number} /new/{number}\n")).collect();
    lines.push_str("/docs/a.txt /docs/b.txt 308\n/page?id=7 https://b.example/seven\n/other/x /y;\n");
    fs::write(&moved, &lines).expect("the table is written");
    for arch in ARCHITECTURES {
        fs::write(&moved, &lines).expect("the table is written");
        fs::write(&config, format!("{}{text}", arch_settings(arch))).expect("the file is written");
        let server = Server::start_configured(&config, &[]);
        let leads_to = |path: &str| {
            let reply = ask(&server, path);
            (reply.status, reply.field("Location").unwrap_or_default().to_owned())
        };
        for (path, status, location) in [
            ("/old/0", 301, "/new/0"),
            ("/old/99999?a=b", 301, "/new/99999?a=b"),
            ("/old/100000", 404, ""),
            ("/docs/a.txt", 308, "/docs/b.txt"),
            ("/page?id=7", 301, "https://b.example/seven"),
            ("/page", 404, ""),
            ("/other/x", 301, "/y"),
            ("/other/z", 308, "/b"),
            ("/", 200, ""),
        ] {
            assert_eq!(leads_to(path), (status, location.into()), "{arch}: {path}");
        }
        fs::write(&moved, "/old/0 /newer").expect("the table is written");
        server.signal(Signal::HUP);
        flash_tests::wait_for("the new table", || leads_to("/old/0").1 == "/newer");
        // Workers of mp change over one by one.
        flash_tests::wait_for("the old table is gone", || leads_to("/old/1").0 == 404);
    }
    fs::write(&moved, "/a /b\nwrong\n").expect("the table is written");
    let check =
        std::process::Command::new(flash_tests::program()).arg("check").arg("--config").arg(&config).output();
    let said = String::from_utf8(check.expect("flash runs").stderr).expect("it is text");
    assert!(
        said.contains("moved.txt:2: write an old path") && said.contains("redirects = 'moved.txt'"),
        "{said}"
    );
}

#[test]
fn a_server_can_only_redirect() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start("amped", folder.path(), &["--redirect", "301 https://b.example{path}"]);
    let reply = server.get("/x?y");
    assert_eq!((reply.status, reply.field("Location")), (301, Some("https://b.example/x?y")));
    drop(server);
    site::write(&folder.path().join("a.txt"), b"found");
    let server = Server::start("amped", folder.path(), &["--strip-prefix", "/docs/", "--methods", "GET"]);
    assert_eq!(server.get("/docs/a.txt").body, b"found");
    assert_eq!(server.get("/docs2/a.txt").status, 404);
}

const TYPES: &str = "
listen = '127.0.0.1:0'
types = { '*.js' = 'text/wrong', '*.br.js' = 'text/javascript', README = 'text/plain', apple-app-site-association = 'application/json' }
extensions = ['.html', '.txt']
[site.'*']
root = 'a'
'*.js.gz' = { header = { Content-Type = 'text/javascript', Content-Encoding = 'gzip' } }
'/raw' = { types = { README = 'application/x-raw' } }
'/gone.html' = { gone = true }
";

#[test]
fn files_have_the_types_that_are_set_and_need_no_extension() {
    let names = [
        "a/x.br.js",
        "a/README",
        "a/raw/README",
        "a/README.d/b.css",
        "a/apple-app-site-association",
        "a/b/x.js.gz",
        "a/icon.svgz",
        "a/about.html",
        "a/blog.html",
        "a/blog/post.txt",
        "a/both.html",
        "a/both",
        "a/bare/x",
        "a/gone.html",
    ];
    for arch in ARCHITECTURES {
        let (_folder, path) = files(&format!("{}{TYPES}", arch_settings(arch)), &names);
        let server = Server::start_configured(&path, &[]);
        for (path, of, content_type, coding) in [
            ("/x.br.js", "x.br.js", "text/javascript", None),
            ("/README", "README", "text/plain", None),
            ("/raw/README", "raw/README", "application/x-raw", None),
            ("/README.d/b.css", "README.d/b.css", "text/css; charset=utf-8", None),
            ("/apple-app-site-association", "apple-app-site-association", "application/json", None),
            ("/b/x.js.gz", "b/x.js.gz", "text/javascript", Some("gzip")),
            ("/icon.svgz", "icon.svgz", "image/svg+xml", Some("gzip")),
            ("/about", "about.html", "text/html; charset=utf-8", None),
            ("/blog", "blog.html", "text/html; charset=utf-8", None),
            ("/blog/post", "blog/post.txt", "text/plain; charset=utf-8", None),
            ("/both", "both", "application/octet-stream", None),
        ] {
            // The second time the caches answer.
            for _ in 0..2 {
                let reply = server.get(path);
                assert_eq!((reply.status, body(&reply)), (200, format!("of a/{of}")), "{arch}: {path}");
                assert_eq!(reply.field("Content-Type"), Some(content_type), "{arch}: {path}");
                assert_eq!(reply.field("Content-Encoding"), coding, "{arch}: {path}");
            }
        }
        for (path, status) in [
            ("/blog/", 403),
            ("/bare", 301),
            ("/about/", 404),
            ("/none", 404),
            ("/gone", 410),
            ("/none.js", 404),
        ] {
            let reply = server.get(path);
            assert_eq!(reply.status, status, "{arch}: {path}");
            let is_page = reply.field("Content-Type").is_some_and(|of| of.starts_with("text/html"));
            assert!(is_page, "{arch}: a page about an error has its own type");
        }
        server.stop();
    }
}

#[test]
fn what_can_have_no_effect_is_an_error_with_its_line() {
    let wrong = "
[site.'a.example']
root = 'a'
deny = '/private'
'/private/x' = { list = true }
'/.git' = { list = true }
'/.shown' = { dotfiles = true }
'/loop' = { redirect = '/loop/x' }
'/loop2' = { redirect = '{path}' }
'/right' = { redirect = '/wrong{rest}' }
'*.bak' = { deny = '*.bak' }
'/late' = { fallback = '/none.html' }
[site.'b.example']
redirect = '/x'
";
    let (_folder, path) = files(wrong, &["a/index.html"]);
    let output = std::process::Command::new(flash_tests::program())
        .args(["check", "--config"])
        .arg(&path)
        .output()
        .expect("flash runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let shown = path.display();
    for (line, text) in [
        (4, "the place can never be reached: its paths are denied"),
        (6, "the place can never be reached: a name that begins with a dot needs `dotfiles`"),
        (8, "the redirection leads to itself"),
        (9, "the redirection leads to itself"),
        (11, "the place can never be reached: its paths are denied"),
        (12, "--fallback /none.html: there is no such file"),
        (14, "the redirection leads to itself"),
    ] {
        let expected = format!("error: {text}");
        let place = format!("{shown}:{line}:");
        let found = said
            .split("error: ")
            .any(|one| format!("error: {one}").starts_with(&expected) && one.contains(&place));
        assert!(found, "no {expected} at line {line} in\n{said}");
    }
    assert!(!said.contains(&format!("{shown}:10:")) && !said.contains(&format!("{shown}:7:")), "{said}");
}
