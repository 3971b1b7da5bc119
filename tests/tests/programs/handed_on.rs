//! Files that programs hand on (X-Accel-Redirect, X-Sendfile): who may have one, the program says, and Flash sends it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flash_tests::reply::{self, Reply};
use flash_tests::{ARCHITECTURES, Server, arch_settings, need, open_folder, scripts, site};
use tempfile::TempDir;

use crate::php::Fpm;

/// Writes the fields that its query names. With `slow` it goes on afterwards.
const GATE: &str = r#"<?php
header_remove('X-Powered-By');
foreach ($_GET['h'] ?? [] as $field) header($field, false);
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
if (isset($_GET['slow'])) { echo str_repeat('x', 10000); flush(); sleep(3); }
echo 'body of the program';
"#;

/// A site with a private folder beside it.
fn folder(settings: &str, arch: &str, socket: &Path) -> TempDir {
    let folder = open_folder();
    for (name, content) in [
        ("site/gate.php", GATE.as_bytes()),
        ("site/open.txt", b"open"),
        ("private/a b.txt", b"a text for members"),
        ("private/folder/inner.txt", b"inner"),
        ("private/code.php", b"<?php echo 'it ran';"),
        ("private/big.bin", &site::pattern(3_000_000)),
        ("secret.txt", b"secret"),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        site::write(&path, content);
    }
    symlink("../secret.txt", folder.path().join("private/out")).unwrap();
    let text = format!(
        "listen = '127.0.0.1:0'\n{}processes = 4\naccess-log = 'access.log'\nlog-format = 'combined'
        [site.'*']\nroot = 'site'\nfastcgi = {{ '.php' = 'unix:{}' }}\nheader = {{ X-Of = 'site' }}\n{settings}\n",
        arch_settings(arch),
        socket.display()
    );
    fs::write(folder.path().join("flash.toml"), text).unwrap();
    folder
}

const FILES: &str = "files = { '/protected' = 'private' }\n'/members' = { methods = ['GET', 'POST'] }";

/// Asks the program to write these fields.
fn ask(server: &Server, method: &str, rest: &str, fields: &[&str], own: &str) -> Reply {
    let encoded = |field: &&str| {
        let byte = |byte: u8| {
            if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
        };
        format!("h[]={}&", field.bytes().map(byte).collect::<String>())
    };
    let query: String = fields.iter().map(encoded).collect();
    let request =
        format!("{method} /gate.php?{query}{rest} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{own}\r\n");
    reply::all(&server.raw(request.as_bytes()), |_| method == "HEAD").remove(0)
}

#[test]
fn a_file_is_sent_with_what_its_program_says() {
    let fpm = Fpm::start();
    for arch in ARCHITECTURES {
        let folder = folder(FILES, arch, &fpm.socket());
        let server = Server::start_configured(&folder.path().join("flash.toml"), &[]);
        let get = |fields: &[&str]| ask(&server, "GET", "", fields, "");
        let said = [
            "X-Accel-Redirect: /protected/a%20b.txt",
            "Content-Type: application/x-members",
            "Content-Disposition: attachment; filename=\"a.txt\"",
            "Set-Cookie: seen=1",
            "Set-Cookie: again=1",
            "Cache-Control: private, max-age=7",
            "X-Accel-Buffering: no",
            "ETag: \"of the program\"",
            "Content-Length: 0",
        ];
        let reply = get(&said);
        assert_eq!((reply.status, &*reply.body), (200, &b"a text for members"[..]), "{arch}");
        for (name, value) in [
            ("Content-Type", Some("application/x-members")),
            ("Content-Disposition", Some("attachment; filename=\"a.txt\"")),
            ("Set-Cookie", Some("seen=1")),
            ("Cache-Control", Some("private, max-age=7")),
            ("Accept-Ranges", Some("bytes")),
            ("X-Of", Some("site")),
            ("Content-Length", Some("18")),
            ("X-Accel-Redirect", None),
            ("X-Accel-Buffering", None),
        ] {
            assert_eq!(reply.field(name), value, "{arch}: {name}");
        }
        let tag = reply.field("ETag").expect("the file's").to_owned();
        assert_ne!(tag, "\"of the program\"", "{arch}");
        // As any other file.
        let with = |own: &str| ask(&server, "GET", "", &said, own);
        assert_eq!(with(&format!("If-None-Match: {tag}\r\n")).status, 304, "{arch}");
        let part = with("Range: bytes=2-5\r\n");
        assert_eq!((part.status, &*part.body), (206, &b"text"[..]), "{arch}");
        assert_eq!(part.field("Set-Cookie"), Some("seen=1"), "{arch}");
        let head = ask(&server, "HEAD", "", &said, "");
        assert_eq!(
            (head.status, head.field("Content-Length"), head.body.len()),
            (200, Some("18"), 0),
            "{arch}"
        );
        let post = ask(&server, "POST", "", &said, "Content-Length: 0\r\n");
        assert_eq!((post.status, post.body.len()), (200, 18), "{arch}");
        unescaped_by_its_path_on_the_disk_and_large(arch, &server, &folder);
        // The program's status.
        let gone = ask(&server, "GET", "status=410", &said, "Range: bytes=2-5\r\n");
        assert_eq!((gone.status, &*gone.body), (410, &b"a text for members"[..]), "{arch}");
        // The program works on, and nobody waits for it.
        let start = Instant::now();
        let slow = ask(&server, "GET", "slow=1", &said, "");
        assert_eq!((slow.status, slow.body.len()), (200, 18), "{arch}");
        assert!(start.elapsed() < Duration::from_secs(2), "{arch}: {:?}", start.elapsed());
        server.stop();
        let log = fs::read_to_string(folder.path().join("access.log")).unwrap();
        assert!(
            log.contains("\"GET /gate.php?")
                && !log.contains("/protected/ HTTP")
                && !log.contains("\"GET /protected"),
            "{arch}: {log}"
        );
    }
}

fn unescaped_by_its_path_on_the_disk_and_large(arch: &str, server: &Server, folder: &TempDir) {
    let get = |fields: &[&str]| ask(server, "GET", "", fields, "");
    let private = fs::canonicalize(folder.path().join("private")).unwrap();
    let file = |name: &str| format!("X-Sendfile: {}/{name}", private.display());
    assert_eq!(get(&["X-Accel-Redirect: /protected/a b.txt?ignored"]).body, b"a text for members", "{arch}");
    assert_eq!(get(&[&file("a b.txt")]).body, b"a text for members", "{arch}");
    assert!(get(&[&file("big.bin")]).body == site::pattern(3_000_000), "{arch}");
    assert_eq!(get(&[&file("code.php")]).body, b"<?php echo 'it ran';", "{arch}: nothing runs there");
}

/// Whether the file is in the caches or not: who has to log in for the program gets a response that no shared cache keeps.
#[test]
fn a_file_is_as_private_as_its_program() {
    let fpm = Fpm::start();
    for arch in ARCHITECTURES {
        let settings =
            format!("{FILES}\n'/gate.php' = {{ auth = 'users' }}\ncache-control = 'public, max-age=60'");
        let folder = folder(&settings, arch, &fpm.socket());
        // Her password is "bee".
        let line = "ann:$5$rounds=1000$saltstring$8Sxg4kFtLpnhyLb1JKNtANKHvK8c2hLHIjyWj1FVKi9\n";
        site::write(&folder.path().join("users"), line.as_bytes());
        let server = Server::start_configured(&folder.path().join("flash.toml"), &[]);
        let said = ["X-Accel-Redirect: /protected/a b.txt"];
        assert_eq!(ask(&server, "GET", "", &said, "").status, 401, "{arch}");
        for time in ["cold", "warm"] {
            let reply = ask(&server, "GET", "", &said, "Authorization: Basic YW5uOmJlZQ==\r\n");
            assert_eq!(
                (reply.status, reply.field("Cache-Control")),
                (200, Some("private, max-age=60")),
                "{arch}: {time}"
            );
        }
        server.stop();
        let log = fs::read_to_string(folder.path().join("access.log")).unwrap();
        assert_eq!(log.matches(" ann [").count(), 2, "{arch}: {log}");
    }
}

#[test]
fn nothing_else_can_be_had_that_way() {
    let fpm = Fpm::start();
    for arch in ARCHITECTURES {
        let folder = folder(FILES, arch, &fpm.socket());
        let server = Server::start_configured(&folder.path().join("flash.toml"), &[]);
        for path in [
            "/protected/a%20b.txt",
            "/protected",
            "/protected/",
            "/protected/code.php",
            "/%70rotected/folder/inner.txt",
            "/x/../protected/a%20b.txt",
        ] {
            assert_eq!(server.get(path).status, 404, "{arch}: {path} is not for clients");
        }
        let private = fs::canonicalize(folder.path().join("private")).unwrap();
        let (secret, up, below) = (
            format!("X-Sendfile: {}", folder.path().join("secret.txt").display()),
            format!("X-Sendfile: {}/../secret.txt", private.display()),
            format!("X-Sendfile: {}-not/a", private.display()),
        );
        for (field, status) in [
            // Out of its folder, by name and by a link.
            ("X-Accel-Redirect: /open.txt", 502),
            ("X-Accel-Redirect: /protected/../open.txt", 502),
            ("X-Accel-Redirect: /protected/../../secret.txt", 502),
            ("X-Accel-Redirect: @named", 502),
            ("X-Accel-Redirect: http://other.example/protected/a", 502),
            ("X-Accel-Redirect: /protected/%zz", 502),
            ("X-Accel-Redirect:", 502),
            ("X-Accel-Redirect: /protected/out", 404),
            // To itself, to a folder, and to what is not there.
            ("X-Accel-Redirect: /gate.php", 502),
            ("X-Accel-Redirect: /protected/folder", 404),
            ("X-Accel-Redirect: /protected/folder/", 404),
            ("X-Accel-Redirect: /protected/none", 404),
            (&secret, 502),
            (&up, 502),
            (&below, 502),
            ("X-Sendfile: a b.txt", 502),
            ("X-Sendfile: /etc/passwd", 502),
        ] {
            let reply = ask(&server, "GET", "", &[field], "");
            assert_eq!(reply.status, status, "{arch}: {field}");
            assert!(
                !reply.body.windows(6).any(|part| part == b"secret" || part == b"root:x"),
                "{arch}: {field}"
            );
        }
        let both = ["X-Sendfile: /a", "X-Accel-Redirect: /protected/none"];
        assert_eq!(ask(&server, "GET", "", &both, "").status, 502, "{arch}: which one?");
        assert_eq!(ask(&server, "GET", "", &[], "").body, b"body of the program", "{arch}");
        let said = server.stop();
        assert!(said.contains("hands on what is in none of the folders of files"), "{arch}: {said}");
        assert!(said.contains("hands on what is no file"), "{arch}: {said}");
    }
}

#[test]
fn without_private_folders_the_fields_are_for_nobody() {
    let fpm = Fpm::start();
    let folder = folder("", "amped", &fpm.socket());
    let server = Server::start_configured(&folder.path().join("flash.toml"), &[]);
    for field in ["X-Accel-Redirect: /open.txt", "X-Sendfile: /etc/passwd", "X-Accel-Expires: 10"] {
        let reply = ask(&server, "GET", "", &[field], "");
        assert_eq!((reply.status, &*reply.body), (200, &b"body of the program"[..]), "{field}");
        assert_eq!(reply.field(field.split(':').next().unwrap()), None, "{field}");
    }
}

/// From the command line, with CGI programs, and over HTTP/2.
#[test]
fn a_flag_and_every_kind_of_program() {
    let (folder, programs) = (folder("", "amped", Path::new("/none")), scripts::make());
    scripts::script(
        programs.path(),
        "hand",
        "#!/bin/sh\nprintf 'X-Accel-Redirect: /protected/big.bin\\nContent-Type: a/b\\n\\n'\n",
    );
    let (files, cgi) = (
        format!("/protected={}", folder.path().join("private").display()),
        format!("/cgi={}", programs.path().display()),
    );
    for arch in ARCHITECTURES {
        let flags = ["--files", &files, "--cgi", &cgi, "--processes", "4"];
        let server = Server::start(arch, &folder.path().join("site"), &flags);
        let reply = server.get("/cgi/hand");
        assert_eq!((reply.status, reply.field("Content-Type")), (200, Some("a/b")), "{arch}");
        assert!(reply.body == site::pattern(3_000_000), "{arch}");
        assert_eq!(server.get("/open.txt").body, b"open", "{arch}");
        assert_eq!(server.get("/protected/big.bin").status, 404, "{arch}");
        let output = Command::new(need("curl", "curl"))
            .args(["-s", "--http2-prior-knowledge", "-r", "1000000-1000099", "-D", "-", "-o"])
            .arg(folder.path().join("part"))
            .arg(format!("http://{}/cgi/hand", server.address))
            .output()
            .unwrap();
        let head = String::from_utf8_lossy(&output.stdout);
        assert!(head.contains("HTTP/2 206") && head.contains("content-type: a/b"), "{arch}: {head}");
        let part = fs::read(folder.path().join("part")).unwrap();
        assert!(part == site::pattern(3_000_000)[1_000_000..1_000_100], "{arch}");
    }
}
