//! Logs that are moved away while the server runs, and SIGHUP, which log rotators send.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{
    ARCHITECTURES, PATIENCE, PROCESSES, Server, family, is_superuser, open_folder, program, read_all, reply,
    site, terminal, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn sighup_reopens_the_logs_and_interrupts_nobody() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let [access, error, moved] = ["access", "error", "moved"].map(|name| folder.path().join(name));
        let (access_flag, error_flag) = (access.to_str().unwrap(), error.to_str().unwrap());
        let flags = ["--processes", "2", "--access-log", access_flag, "--error-log", error_flag];
        let server = Server::start(arch, site.path(), &flags);
        let mut download = server.connect();
        download.write_all(b"GET /20000000.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut begun = vec![0; 1000];
        download.read_exact(&mut begun).unwrap();

        fs::rename(&access, &moved).unwrap();
        server.signal(Signal::HUP);
        wait_for("a new log", || access.exists());
        wait_for("the line about it", || text(&error).contains("SIGHUP: the logs are reopened"));
        assert_eq!(text(&error).matches("SIGHUP").count(), 1, "{arch}");
        begun.extend(read_all(&mut download));
        assert_eq!(reply::only(&begun).body.len(), 20_000_000, "{arch}");
        wait_for("the download's line", || text(&access).contains("GET /20000000.bin"));
        server.stop();
    }
}

#[test]
fn a_preview_ends_in_order_with_its_terminal() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let (ours, theirs) = terminal::open();
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = Command::new(program())
            .args(["serve", "--listen", "127.0.0.1:0", "--processes", "2", "--arch"])
            .args(arch.split(' '))
            .arg(site.path())
            .stdin(Stdio::from(theirs))
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        wait_for("the server", || text(log.path()).contains("serving"));
        let pid = Pid::from_child(&child);
        let hang_up = || kill_process(pid, Signal::HUP).unwrap();
        hang_up();
        wait_for("the line about it", || text(log.path()).contains("SIGHUP"));
        drop(ours);
        let mut code = None;
        let give_up = Instant::now() + PATIENCE;
        while code.is_none() && Instant::now() < give_up {
            // A child of another test may hold the terminal until it has become its program.
            hang_up();
            thread::sleep(Duration::from_millis(50));
            code = child.try_wait().unwrap();
        }
        // A test that fails leaves no server behind.
        let _ = child.kill();
        let _ = child.wait();
        let said = text(log.path());
        assert_eq!(code.and_then(|code| code.code()), Some(0), "{arch}: {said}");
        assert!(said.contains("flash: stopped"), "{arch}: {said}");
    }
}

/// The recipe of README: root starts the server in a log folder of root's, and it serves as another user.
#[test]
fn a_server_that_gave_up_root_reopens_logs_in_roots_folder() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    let unconfined = format!("{PROCESSES} --sandbox off");
    for arch in ARCHITECTURES.into_iter().chain([unconfined.as_str()]) {
        let folder = open_folder();
        let [access, error] = ["access", "error"].map(|name| folder.path().join(name));
        let moved = |path: &Path| path.with_extension("1");
        let flags = ["--access-log", access.to_str().unwrap(), "--error-log", error.to_str().unwrap()];
        let server = Server::start(
            arch,
            site.path(),
            &[&["--user", "nobody", "--processes", "2"], &flags[..]].concat(),
        );
        server.get("/a.txt");
        wait_for("the first line", || text(&access).lines().count() == 1);
        for path in [&access, &error] {
            fs::rename(path, moved(path)).unwrap();
        }
        server.signal(Signal::USR1);
        wait_for("new logs", || access.exists() && error.exists());
        // A process of mp that is late appends to the old log.
        let lines = |path: &Path| text(path).lines().count();
        wait_for("a line in the new log", || {
            server.get("/a.txt");
            lines(&access) > 0
        });
        assert!(!server.said().contains("cannot reopen"), "{arch}: {}", server.said());

        // What fails is said, in the log that stays in use and where an operator looks.
        fs::remove_file(&error).unwrap();
        fs::rename(folder.path(), folder.path().with_extension("gone")).unwrap();
        server.signal(Signal::USR1);
        wait_for("the failure", || {
            server.said().contains("error log: cannot reopen")
                && server.said().contains("the old file stays in use")
        });
        server.stop();
        fs::remove_dir_all(folder.path().with_extension("gone")).unwrap();
    }
}

/// The log of a site that comes by a reload lies in root's folder, too.
#[test]
fn the_log_of_a_new_site_is_opened_and_rotated_with_the_rights_of_the_start() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = open_folder();
        let (path, root) = (folder.path().join("flash.toml"), site.path().display());
        let settings = |sites: &[&str]| {
            let of = |name: &&str| format!("[site.'{name}']\nroot = '{root}'\naccess-log = 'logs/{name}'\n");
            let sites: String = sites.iter().map(of).collect();
            let arch = flash_tests::arch_settings(arch);
            fs::write(&path, format!("listen = '127.0.0.1:0'\nuser = 'nobody'\n{arch}{sites}")).unwrap();
        };
        fs::create_dir(folder.path().join("logs")).unwrap();
        settings(&["a.example"]);
        let admin = format!("unix:{}", folder.path().join("admin").display());
        let server = Server::start_configured(&path, &["--processes", "2", "--admin", &admin]);
        settings(&["a.example", "b.example"]);
        server.signal(Signal::HUP);
        let log = |name: &str| folder.path().join("logs").join(name);
        let ask = |host: &str| {
            _ = server
                .raw(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        };
        for host in ["a.example", "b.example"] {
            wait_for("a line", || {
                ask(host);
                text(&log(host)).contains("GET /a.txt")
            });
            fs::rename(log(host), log(host).with_extension("1")).unwrap();
        }
        server.signal(Signal::USR1);
        wait_for("new logs", || log("a.example").exists() && log("b.example").exists());
        assert!(!server.said().contains("cannot"), "{arch}: {}", server.said());
        server.stop();
    }
}

/// Their writers ask for them at the same time.
#[test]
fn a_server_that_gave_up_root_reopens_hundreds_of_logs() {
    const LOGS: usize = 200;
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = open_folder();
        let (path, root) = (folder.path().join("flash.toml"), site.path().display());
        let of = |number| format!("[site.'s{number}']\nroot = '{root}'\naccess-log = 'logs/{number}'\n");
        let sites: String = (0..LOGS).map(of).collect();
        let arch_settings = flash_tests::arch_settings(arch);
        fs::write(&path, format!("listen = '127.0.0.1:0'\nuser = 'nobody'\n{arch_settings}{sites}")).unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        let admin = format!("unix:{}", folder.path().join("admin").display());
        let server = Server::start_configured(&path, &["--processes", "3", "--admin", &admin]);
        let log = |number: usize| folder.path().join("logs").join(number.to_string());
        wait_for("the logs", || (0..LOGS).all(|number| log(number).exists()));
        (0..LOGS).for_each(|number| fs::rename(log(number), log(number).with_extension("old")).unwrap());
        server.signal(Signal::USR1);
        wait_for("new logs, or an error", || {
            (0..LOGS).all(|number| log(number).exists()) || server.said().contains("cannot reopen")
        });
        assert!(!server.said().contains("cannot reopen"), "{arch}: {}", server.said());
        server.stop();
    }
}

/// A process of mp that is replaced has not opened the logs yet.
#[test]
fn a_replaced_process_writes_to_the_log_of_today() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    let folder = open_folder();
    let [access, moved] = ["access", "moved"].map(|name| folder.path().join(name));
    let flags = ["--user", "nobody", "--processes", "1", "--access-log", access.to_str().unwrap()];
    let server = Server::start("mp", site.path(), &flags);
    fs::rename(&access, &moved).unwrap();
    server.signal(Signal::USR1);
    wait_for("a new log", || access.exists());
    let worker = || family::of(&server).into_iter().find(|process| process.name() == "worker-0");
    let first = worker().expect("a worker");
    first.kill();
    wait_for("another worker", || worker().is_some_and(|next| next != first));
    server.get("/a.txt");
    wait_for("its line", || text(&access).lines().count() == 1);
    assert_eq!(text(&moved), "");
    server.stop();
}

/// Looking at paths costs a server that may not look a process for each.
#[test]
fn only_a_server_that_was_replaced_follows_the_paths_of_its_logs() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let [access, moved] = ["access", "moved"].map(|name| folder.path().join(name));
        let server =
            Server::start(arch, site.path(), &["--processes", "1", "--access-log", access.to_str().unwrap()]);
        fs::rename(&access, &moved).unwrap();
        fs::write(&access, "").unwrap();
        server.get("/a.txt");
        wait_for("a line", || !text(&access).is_empty() || !text(&moved).is_empty());
        assert_eq!(text(&access), "", "{arch}");
        server.stop();
    }
}
