//! Programs of sites and places: each has its own, and its rules change what they answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, arch_settings, need, open_folder, program, scripts, site};
use tempfile::TempDir;

use crate::php::Fpm;

const FRONT: &str = r#"<?php
header('X-Powered-By: me'); header('X-Of: program'); header('Vary: Cookie');
foreach (['REQUEST_METHOD', 'REQUEST_URI', 'SCRIPT_NAME', 'PATH_INFO', 'DOCUMENT_ROOT'] as $name) echo $_SERVER[$name] ?? '-', ' ';
echo $_SERVER['SCRIPT_FILENAME'], ' ', strlen(file_get_contents('php://input'));
"#;

/// A shop with a front controller, and another application under a prefix.
fn shop(socket: &Path, arch: &str) -> (TempDir, PathBuf) {
    let folder = open_folder();
    for (name, text) in [
        ("plain/a.txt", "plain"),
        ("plain/a.php", "source"),
        ("shop/index.php", FRONT),
        ("shop/style.css", "css"),
        ("shop/upload/evil.php", "<?php echo 'evil';"),
        ("admin/index.php", FRONT),
        ("admin/tool.php", FRONT),
        ("admin/logo.txt", "logo"),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        site::write(&path, text.as_bytes());
    }
    let arch = arch_settings(arch);
    let text = format!(
        "listen = '127.0.0.1:0'\n{arch}processes = 4
        [site.'plain.example']
        root = 'plain'
        [site.'shop.example']
        root = 'shop'
        fallback = '/index.php'
        fastcgi = {{ '.php' = 'unix:{}' }}
        no-header = 'X-Powered-By'
        header = {{ X-Of = 'site', Vary = 'Accept' }}
        '/upload' = {{ no-programs = '/upload' }}
        '/small' = {{ body-bytes-max = 10 }}
        '/admin' = {{ root = 'admin', strip-prefix = '/admin', methods = ['GET', 'POST'] }}
        '/closed' = {{ gone = true }}\n",
        socket.display()
    );
    let path = folder.path().join("flash.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn ask(server: &Server, method: &str, host: &str, target: &str, body: &str) -> Reply {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{length}\r\n");
    reply::all(&server.raw(&[head.as_bytes(), body.as_bytes()].concat()), |_| method == "HEAD").remove(0)
}

#[test]
fn sites_and_places_have_their_own_programs() {
    let fpm = Fpm::start();
    for arch in ARCHITECTURES {
        let (folder, path) = shop(&fpm.socket(), arch);
        let server = Server::start_configured(&path, &[]);
        let root = |name: &str| fs::canonicalize(folder.path().join(name)).unwrap().display().to_string();
        let (shop, admin) = (root("shop"), root("admin"));
        for _ in 0..2 {
            for (method, target, body, expected) in [
                (
                    "GET",
                    "/made/up?a=b",
                    "",
                    format!("GET /made/up?a=b /index.php - {shop} {shop}/index.php 0"),
                ),
                (
                    "POST",
                    "/made/up",
                    "name=value",
                    format!("POST /made/up /index.php - {shop} {shop}/index.php 10"),
                ),
                ("GET", "/admin/", "", format!("GET /admin/ /admin/index.php - {admin} {admin}/index.php 0")),
                (
                    "POST",
                    "/admin/tool.php/more?x",
                    "y",
                    format!("POST /admin/tool.php/more?x /admin/tool.php /more {admin} {admin}/tool.php 1"),
                ),
            ] {
                let reply = ask(&server, method, "shop.example", target, body);
                assert_eq!(
                    (reply.status, &*String::from_utf8_lossy(&reply.body)),
                    (200, &*expected),
                    "{arch}"
                );
                assert_eq!(
                    (reply.field("X-Powered-By"), reply.field("X-Of")),
                    (None, Some("site")),
                    "{arch}"
                );
                let vary: Vec<_> = reply.fields.iter().filter(|(name, _)| name == "Vary").collect();
                assert_eq!(vary.len(), 2, "{arch}: both vary: {vary:?}");
                let of = reply.fields.iter().filter(|(name, _)| name == "X-Of").count();
                assert_eq!(of, 1, "{arch}: the site's field takes the place of the program's");
            }
            for (method, host, target, status) in [
                ("GET", "shop.example", "/style.css", 200),
                ("GET", "shop.example", "/admin/logo.txt", 200),
                ("GET", "shop.example", "/admin/none", 404),
                ("GET", "shop.example", "/admin", 301),
                ("PUT", "shop.example", "/admin/tool.php", 405),
                ("PUT", "shop.example", "/made/up", 200),
                ("GET", "shop.example", "/closed/index.php", 410),
                ("POST", "shop.example", "/closed", 410),
                ("GET", "shop.example", "/upload/evil.php", 403),
                ("GET", "plain.example", "/none", 404),
                ("GET", "plain.example", "/a.php", 200),
                ("POST", "plain.example", "/a.php", 405),
            ] {
                assert_eq!(
                    ask(&server, method, host, target, "").status,
                    status,
                    "{arch}: {method} {target}"
                );
            }
            assert_eq!(ask(&server, "POST", "shop.example", "/small/x", "0123456789a").status, 413, "{arch}");
            let refused = ask(&server, "DELETE", "shop.example", "/admin/tool.php", "");
            assert_eq!(refused.field("Allow"), Some("GET, POST, HEAD"), "{arch}");
        }
    }
}

/// Asks as a client of a host for what lies at a path.
fn body(server: &Server, host: &str, target: &str) -> (u16, String) {
    let reply = ask(server, "GET", host, target, "");
    (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
}

#[test]
fn sites_run_scripts_and_applications_of_their_own() {
    let php = need("php-cgi", "php-cgi");
    for arch in ARCHITECTURES {
        let folder = open_folder();
        let scripts_of = |name: &str| folder.path().join("three/bin").join(name);
        for name in ["one", "two", "three"] {
            fs::create_dir_all(scripts_of(name)).unwrap();
            fs::create_dir_all(folder.path().join(name)).unwrap();
            let text =
                format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n{name} %s' $DOCUMENT_ROOT\n");
            scripts::script(&scripts_of(name), "who", &text);
        }
        for name in ["two/a.php", "three/a.php"] {
            site::write(&folder.path().join(name), b"<?php echo 'app of ', $_SERVER['DOCUMENT_ROOT'];");
        }
        let path = folder.path().join("flash.toml");
        let configure = |of_three: &str| {
            let arch = arch_settings(arch);
            let text = format!(
                "listen = '127.0.0.1:0'\n{arch}processes = 4\nadmin = 'unix:admin'
                [site.'three.example']
                root = 'three'
                {of_three}
                [site.'one.example']
                root = 'one'
                cgi = {{ '/bin' = 'three/bin/one' }}
                [site.'two.example']
                root = 'two'
                cgi = {{ '/bin' = 'three/bin/two' }}
                app = {{ '.php' = '{}' }}\n",
                php.display()
            );
            fs::write(&path, text).unwrap();
        };
        let reload = || Command::new(program()).args(["reload", "--config"]).arg(&path).output().unwrap();
        configure("");
        let server = Server::start_configured(&path, &[]);
        let root = fs::canonicalize(folder.path()).unwrap().display().to_string();
        // The second time after a reload that lets the third site run what the fork helper knows.
        for status in [403, 404] {
            for (host, target, expected) in [
                ("one.example", "/bin/who", (200, format!("one {root}/one"))),
                ("two.example", "/bin/who", (200, format!("two {root}/two"))),
                ("two.example", "/a.php", (200, format!("app of {root}/two"))),
            ] {
                assert_eq!(body(&server, host, target), expected, "{arch}");
            }
            assert_eq!(body(&server, "three.example", "/a.php").0, 200, "{arch}: no program there");
            for script in ["/bin/one/who", "/bin/two/who"] {
                assert_eq!(
                    body(&server, "three.example", script).0,
                    status,
                    "{arch}: another site's {script}"
                );
            }
            configure("cgi = { '/bin' = 'three/bin/two' }");
            assert!(reload().status.success(), "{arch}");
            assert_eq!(
                body(&server, "three.example", "/bin/who"),
                (200, format!("two {root}/three")),
                "{arch}"
            );
        }
        configure("cgi = { '/bin' = 'three/bin/three' }");
        let output = reload();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("or a restart lets the server run the programs in"), "{arch}: {said}");
        assert_eq!(body(&server, "three.example", "/bin/who").1, format!("two {root}/three"), "{arch}");
        server.stop();
    }
}
