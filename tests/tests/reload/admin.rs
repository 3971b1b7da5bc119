//! The admin socket: what it answers, to whom, and when.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use flash_tests::{is_superuser, program, set_mode, site, wait_for};
use rustix::process::Signal;

use flash_tests::admin::ask;

use crate::setup::{Setup, architectures};

#[test]
fn it_answers_and_is_the_owners_alone() {
    for arch in architectures() {
        let setup = Setup::start(arch, "");
        let socket = setup.path("admin.sock");
        let metadata = fs::metadata(&socket).unwrap();
        assert!(metadata.file_type().is_socket() && metadata.permissions().mode() & 0o777 == 0o600, "{arch}");
        assert_eq!(setup.ask("GET", "/healthz"), (200, "serving\n".into()), "{arch}");
        let status = setup.status();
        assert_eq!(status["pid"], setup.server.pid(), "{arch}");
        assert!(status["version"].is_string() && status["generation"] == 1, "{arch}: {status}");
        for (method, path, code) in
            [("GET", "/reload", 405), ("POST", "/healthz", 405), ("GET", "/nowhere", 404), ("", "", 400)]
        {
            assert_eq!(setup.ask(method, path).0, code, "{arch}: {method} {path}");
        }
        assert_eq!(setup.reload(), (Some(0), "configuration 2 serves from now on\n".into()), "{arch}");
        assert_eq!(setup.ask("POST", "/reopen").0, 200, "{arch}");
        setup.server.stop();
        assert!(!socket.exists(), "{arch}: its name is removed");
    }
}

#[test]
fn silent_clients_keep_nobody_out_for_long() {
    let setup = Setup::start("amped", "");
    let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(setup.path("admin.sock")).unwrap()).collect();
    drop(silent);
    wait_for("an answer", || setup.ask("GET", "/healthz").0 == 200);
    setup.server.stop();
}

#[test]
fn another_user_is_refused_even_if_the_mode_allows_it() {
    if !is_superuser("a program of another user") {
        return;
    }
    let setup = Setup::start("amped", "");
    let socket = setup.path("admin.sock");
    for path in [setup.folder.path(), &socket] {
        set_mode(path, 0o777);
    }
    // The program is copied, because its folder may be closed to others.
    let copy = setup.path("flash");
    fs::copy(program(), &copy).unwrap();
    let admin = format!("unix:{}", socket.display());
    let output =
        Command::new(&copy).args(["reload", "--admin", &admin]).uid(65_534).gid(65_534).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("only root and the server's user"), "{said}");
    assert_eq!(setup.in_use(), [1]);
    setup.server.stop();
}

#[test]
fn it_answers_while_the_server_drains() {
    for arch in architectures() {
        let setup = Setup::start(arch, "drain = '20s'\n");
        site::write(&setup.path("old/large"), &site::pattern(20_000_000));
        let mut download = setup.server.connect();
        download.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut begun = vec![0; 1000];
        download.read_exact(&mut begun).unwrap();
        setup.server.signal(Signal::TERM);
        let socket = setup.path("admin.sock");
        wait_for("it to drain", || ask(&socket, "GET", "/healthz") == (503, "draining\n".into()));
        let (code, said) = ask(&socket, "POST", "/reload");
        assert_eq!((code, &said[..]), (422, "the server is stopping\n"), "{arch}");
        let rest = flash_tests::read_all(&mut download);
        assert!(rest.len() > 19_000_000, "{arch}: the download ends");
    }
}

/// A cron job sends a mail about each line.
#[test]
fn flash_reopen_is_silent_or_says_what_it_could_not_open() {
    for arch in ["amped", "uring", "sped", "mt", "pipelined"] {
        let setup = Setup::start(arch, "access-log = 'new/access'\nerror-log = 'new/errors'\n");
        assert_eq!(setup.flash("reopen"), (Some(0), String::new()), "{arch}");
        fs::rename(setup.path("new"), setup.path("moved")).unwrap();
        let (code, said) = setup.flash("reopen");
        assert_eq!(code, Some(1), "{arch}: {said}");
        for name in ["access", "errors"] {
            let path = setup.path("new").join(name).display().to_string();
            assert!(said.contains(&format!("cannot reopen {path}: ")), "{arch}: {said}");
        }
        fs::rename(setup.path("moved"), setup.path("new")).unwrap();
        assert_eq!(setup.flash("reopen"), (Some(0), String::new()), "{arch}");
        setup.server.stop();
    }
}

#[test]
fn flash_check_says_what_the_running_server_would_refuse() {
    for arch in ["amped", "uring", "sped"] {
        let setup = Setup::start(arch, "");
        let (code, said) = setup.flash("check");
        assert!(code == Some(0) && !said.contains("refuse"), "{arch}: {said}");
        setup.write("path-cache = 7\n");
        let (code, said) = setup.flash("check");
        assert_eq!(code, Some(0), "{arch}: {said}");
        assert!(said.contains("the running server would refuse this reload"), "{arch}: {said}");
        assert!(said.contains("`flash upgrade` or a restart changes `path-cache`"), "{arch}: {said}");
        assert_eq!(setup.in_use(), [1], "{arch}: nothing has changed");
        // Another file is no business of this server's.
        let (other, admin) = (setup.path("other.toml"), setup.path("admin.sock"));
        let text = format!("root = 'new'\npath-cache = 8\nadmin = 'unix:{}'\n", admin.display());
        fs::write(&other, text).unwrap();
        let output = Command::new(program()).args(["check", "--config"]).arg(&other).output().unwrap();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("refuse"), "{arch}: {output:?}");
        setup.server.stop();
        // Nor is there anybody to be asked.
        let file = tempfile::tempdir().unwrap();
        fs::write(file.path().join("flash.toml"), "root = '/'\nadmin = 'unix:/nowhere/admin.sock'\n")
            .unwrap();
        let output =
            Command::new(program()).args(["check", "--config"]).arg(file.path().join("flash.toml")).output();
        assert_eq!(output.unwrap().status.code(), Some(0), "{arch}");
    }
}
