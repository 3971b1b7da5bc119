//! Front controllers behind `--fallback`: what reaches them, what they are told, and what stays closed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, PATIENCE, Server, need, open_folder, program, scripts, site};
use tempfile::TempDir;

use crate::php::Fpm;

/// It says what Symfony, Laravel and WordPress look at.
const FRONT: &str = r#"<?php
$asked = ['REQUEST_METHOD', 'REQUEST_URI', 'SCRIPT_NAME', 'PHP_SELF', 'PATH_INFO', 'QUERY_STRING'];
foreach ($asked as $name) echo $_SERVER[$name] ?? '-', ' ';
echo basename(dirname($_SERVER['SCRIPT_FILENAME'])), '/', basename($_SERVER['SCRIPT_FILENAME']);
echo ' ', strlen(file_get_contents('php://input'));
"#;

fn put(site: &Path, name: &str, text: &str) {
    let path = site.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    site::write(&path, text.as_bytes());
}

/// A site as WordPress and Laravel have them.
fn application() -> TempDir {
    let folder = open_folder();
    for (name, text) in [
        ("public/index.php", FRONT),
        ("public/other.php", "<?php echo 'other ', $_SERVER['PATH_INFO'] ?? '';"),
        ("public/admin/index.php", "<?php echo 'admin ', $_SERVER['SCRIPT_NAME'];"),
        ("public/style.css", "css"),
        ("public/assets/app.js", "js"),
        ("public/.env", "secret"),
        ("public/config.php.bak", "secret"),
        ("public/private/plan.txt", "secret"),
        ("public/uploads/evil.php", "<?php echo 'evil';"),
    ] {
        put(folder.path(), name, text);
    }
    folder
}

fn ask(server: &Server, method: &str, target: &str, body: &str) -> Reply {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{length}\r\n");
    let raw = server.raw(&[head.as_bytes(), body.as_bytes()].concat());
    reply::all(&raw, |_| method == "HEAD").remove(0)
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn check(arch: &str, server: &Server) {
    // Each asks more than once: the first time the disk, then the caches.
    for _ in 0..3 {
        for (method, target, body) in [
            ("GET", "/made/up", ""),
            ("GET", "/2026/11/a-post/?page=2&x=%20y", ""),
            ("GET", "/users/jane.doe?q", ""),
            ("GET", "/index.phpx", ""),
            ("GET", "/none.php", ""),
            ("GET", "/caf%C3%A9/%20x", ""),
            ("GET", "/assets/", ""),
            ("GET", "/assets/gone.js?v=1", ""),
            ("POST", "/made/up?a=b", "name=value"),
            ("POST", "/assets", "x"),
            ("PUT", "/api/things/1.json", "{}"),
            ("PATCH", "/api/things/1", "{}"),
            ("DELETE", "/api/things/1", ""),
            ("OPTIONS", "/api/things", ""),
        ] {
            let reply = ask(server, method, target, body);
            let query = target.split_once('?').map_or("", |(_, query)| query);
            let expected =
                format!("{method} {target} /index.php /index.php - {query} public/index.php {}", body.len());
            assert_eq!((reply.status, text(&reply)), (200, expected), "{arch}: {method} {target}");
        }
        assert_eq!(ask(server, "HEAD", "/made/up", "").status, 200, "{arch}");
        for (method, target, status, says) in [
            ("GET", "/style.css", 200, "css"),
            ("GET", "/assets/app.js", 200, "js"),
            ("GET", "/other.php/a/b", 200, "other /a/b"),
            ("GET", "/admin/", 200, "admin /admin/index.php"),
            ("GET", "/assets", 301, ""),
            ("POST", "/style.css", 405, ""),
            ("GET", "/.env", 404, ""),
            ("POST", "/.env", 404, ""),
            ("GET", "/.git/config", 404, ""),
            ("GET", "/config.php.bak", 404, ""),
            ("GET", "/none.php~", 404, ""),
            ("GET", "/private/plan.txt", 404, ""),
            ("GET", "/private/none", 404, ""),
            ("GET", "/uploads/evil.php", 403, ""),
            ("GET", "/uploads/none", 404, ""),
            ("POST", "/uploads/none", 405, ""),
            ("GET", "/private%2Fnone", 404, ""),
        ] {
            let reply = ask(server, method, target, "");
            assert_eq!(reply.status, status, "{arch}: {method} {target}");
            let body = text(&reply);
            let is_right = if says.is_empty() { !body.contains("index.php") } else { body == says };
            assert!(is_right, "{arch}: {method} {target}: {body}");
        }
        let well_known = server.get("/.well-known/none");
        assert!(text(&well_known).starts_with("GET /.well-known/none /index.php"), "{arch}");
    }
    let big = "x".repeat(300_000);
    assert!(text(&ask(server, "POST", "/made.up", &big)).ends_with(" 300000"), "{arch}");
}

fn start(arch: &str, site: &Path, flags: &[&str]) -> Server {
    Server::start(arch, site, &[flags, &["--processes", "4"]].concat())
}

#[test]
fn php_answers_for_all_that_is_not_there() {
    let (folder, fpm) = (application(), Fpm::start());
    let site = folder.path().join("public");
    let fastcgi = format!(".php=unix:{}", fpm.socket().display());
    let app = format!(".php={}", need("php-cgi", "php-cgi").display());
    for arch in ARCHITECTURES {
        for program in [["--fastcgi", &fastcgi], ["--app", &app]] {
            let rules = ["--fallback", "/index.php", "--deny", "/private", "--no-programs", "/uploads"];
            let server = start(arch, &site, &[&program[..], &rules].concat());
            check(arch, &server);
            server.stop();
        }
    }
}

/// Also in the sandbox, where the server finds no files itself.
#[test]
fn a_cgi_script_and_a_file_can_be_the_fallback() {
    let (site, scripts) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let flags = ["--cgi", &cgi, "--fallback", "/cgi/env", "--processes", "4"];
        let server = Server::start(arch, site.path(), &flags);
        for target in ["/made/up.html?a=b", "/plain/?a=b"] {
            let said = text(&ask(&server, "POST", target, "body"));
            let uri = format!("REQUEST_URI={target}");
            for line in [&*uri, "SCRIPT_NAME=/cgi/env", "QUERY_STRING=a=b", "CONTENT_LENGTH=4"] {
                assert!(said.lines().any(|other| other == line), "{arch}: {line} is not in\n{said}");
            }
            assert!(!said.contains("PATH_INFO="), "{arch}: {said}");
        }
        server.stop();
        let server = Server::start(arch, site.path(), &["--fallback", "sub/index.html", "--processes", "4"]);
        for target in ["/made/up", "/made.up", "/plain/"] {
            let reply = server.get(target);
            assert_eq!((reply.status, &*reply.body), (200, &b"sub\n"[..]), "{arch}: {target}");
        }
        assert_eq!(ask(&server, "POST", "/made/up", "x").status, 405, "{arch}");
        server.stop();
    }
}

#[test]
fn a_release_without_the_fallback_answers_404() {
    let folder = application();
    put(folder.path(), "next/style.css", "next");
    let current = folder.path().join("current");
    let app = format!(".php={}", need("php-cgi", "php-cgi").display());
    for arch in ARCHITECTURES {
        let _ = fs::remove_file(&current);
        symlink("public", &current).unwrap();
        let flags = ["--app", &app, "--fallback", "index.php", "--revalidate", "40ms"];
        let server = start(arch, &current, &flags);
        assert_eq!(server.get("/made/up").status, 200, "{arch}");
        symlink("next", folder.path().join("new")).unwrap();
        fs::rename(folder.path().join("new"), &current).unwrap();
        // Each process of mp sees the switch by itself.
        for method in ["GET", "POST"] {
            let give_up = Instant::now() + PATIENCE;
            loop {
                match ask(&server, method, "/made/up", "").status {
                    404 => break,
                    status => {
                        assert!(status == 200 && Instant::now() < give_up, "{arch}: {method}: {status}")
                    }
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        server.stop();
    }
}

#[test]
fn a_fallback_that_cannot_answer_is_refused_at_the_start() {
    let (folder, scripts) = (application(), scripts::make());
    let site = folder.path().join("public");
    let cgi = format!("/cgi={}", scripts.path().display());
    let fastcgi = ["--fastcgi", ".php=unix:/nowhere"];
    for (flags, why) in [
        (&["--fallback", "/none.html"][..], "--fallback /none.html: there is no such file in "),
        (&["--spa", "none.html"], "--spa /none.html: there is no such file in "),
        (&["--fallback", "assets"], "it is no file in "),
        (&["--fallback", "/cgi/none", "--cgi", &cgi], "there is no such file in "),
        (&["--fallback", "index.php"], "no program answers there"),
        (&["--fallback", "index.php", "--no-programs", "/index.php", fastcgi[0], fastcgi[1]], "no program"),
        (&["--fallback", "/.env"], "need --dotfiles"),
        (&["--fallback", "style.css", "--deny", "*.css"], "this name is denied"),
        (&["--fallback", "style.css", "--spa", "style.css"], "cannot be used with"),
        (&["--fallback", "/assets/"], "write the path of a file below DIR"),
    ] {
        let run = Command::new(program()).arg("serve").arg(&site).args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{flags:?}: {said}");
    }
}
