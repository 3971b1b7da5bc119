//! Connections through upgrades: the old server answers one more request of each, and says that it closes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flash_tests::family::{self, Process};
use flash_tests::{PATIENCE, connect, is_superuser, set_mode, tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;

use super::setup::{Download, Setup, architectures, ask, signal};

/// The response to the next request says that the connection closes, and then it does. A loop of a busy machine may begin to drain a
/// request later.
fn ask_last(stream: &mut TcpStream, arch: &str) {
    wait_for("a last response", || !ask(stream).unwrap_or_else(|error| panic!("{arch}: {error}")));
    assert_eq!(stream.read(&mut [0; 1]).map_err(|error| error.kind()), Ok(0), "{arch}");
}

#[test]
fn an_idle_connection_gets_one_more_response_from_the_old_server() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let (mut kept, mut silent) = (setup.server.connect(), setup.server.connect());
        assert_eq!(ask(&mut kept), Ok(true), "{arch}");
        for _ in 0..2 {
            setup.upgraded();
        }
        assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "{arch}: it waits");
        ask_last(&mut kept, arch);
        // The kernel may have kept it for the new server, because its client has sent nothing.
        ask(&mut silent).unwrap_or_else(|error| panic!("{arch}: {error}"));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        setup.stop();
    }
}

#[test]
fn a_connection_that_becomes_idle_later_gets_one_more_response() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let download = Download::begin(&setup.server);
        setup.upgraded();
        assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "{arch}: it waits");
        let mut stream = download.end().unwrap_or_else(|error| panic!("{arch}: {error}"));
        ask_last(&mut stream, arch);
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        setup.stop();
    }
}

#[test]
fn a_connection_without_another_request_is_closed_when_the_drain_is_over() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &["--upgrade-drain", "1s"]);
        let mut stream = setup.server.connect();
        assert_eq!(ask(&mut stream), Ok(true), "{arch}");
        let since = Instant::now();
        setup.upgraded();
        assert_eq!(stream.read(&mut [0; 1]).map_err(|error| error.kind()), Ok(0), "{arch}");
        assert!(since.elapsed() > Duration::from_millis(900), "{arch}: after {:?}", since.elapsed());
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        setup.stop();
    }
}

#[test]
fn clients_that_keep_their_connections_lose_no_request() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let load = |think: &str| {
            let url = format!("http://{}/a.txt", setup.server.address);
            let mut command = Command::new(tool("load"));
            command.args([&url, "-c", "8", "-d", "2m", "--think", think, "--json", "-", "--quiet"]);
            command.stdout(Stdio::piped()).spawn().expect("flash load runs")
        };
        let loads = [load("0s"), load("5ms")];
        for _ in 0..10 {
            setup.upgraded();
        }
        for load in loads {
            signal(load.id(), Signal::INT);
            let output = load.wait_with_output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
            let counts = ["errors_total", "retries"].map(|name| report[name].as_u64());
            assert_eq!(counts, [Some(0), Some(0)], "{arch}: {} {report}", setup.server.said());
            let longest_us = report["latency_us"]["max"].as_f64().unwrap();
            assert!(longest_us < 3e6, "{arch}: a request waited {longest_us} us for an upgrade");
        }
        setup.stop();
    }
}

#[test]
fn the_client_that_a_proxy_has_named_is_known_until_the_last_response() {
    for arch in architectures() {
        let mut setup = Setup::with(arch, &[], |command, folder| {
            command.args(["--listen", "127.0.0.1:0,proxy-protocol", "--access-log"]).arg(folder.join("log"));
        });
        let said = setup.server.said();
        let proxied = said.split("http://").nth(2).and_then(|rest| rest.split('/').next()?.parse().ok());
        let mut stream = connect(proxied.unwrap_or_else(|| panic!("{said}")));
        stream.write_all(b"PROXY TCP4 198.51.100.9 192.0.2.1 4711 80\r\n").unwrap();
        assert_eq!(ask(&mut stream), Ok(true), "{arch}");
        setup.upgraded();
        ask_last(&mut stream, arch);
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        let log = || fs::read_to_string(setup.path("log")).unwrap_or_default();
        wait_for("the log", || log().lines().count() >= 2);
        assert!(log().lines().all(|line| line.starts_with("198.51.100.9 ")), "{arch}: {}", log());
        setup.stop();
    }
}

#[test]
fn the_idle_timeout_goes_on_through_an_upgrade() {
    for arch in ["amped", "mt", "mp"] {
        let mut setup = Setup::new(arch, &["--idle-timeout", "6s"]);
        let mut stream = setup.server.connect();
        assert_eq!(ask(&mut stream), Ok(true), "{arch}");
        let since = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        setup.upgraded();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "{arch}");
        let took = since.elapsed().as_secs_f64();
        assert!((5.5..8.5).contains(&took), "{arch}: closed after {took} s");
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        setup.stop();
    }
}

#[test]
fn if_the_new_server_dies_the_old_one_ends_its_connections_with_a_response() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let download = Download::begin(&setup.server);
        let pid = setup.upgraded();
        signal(pid, Signal::KILL);
        // Its sockets are closed with its last thread, and the first one may have ended before.
        let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        wait_for("its end", || !Process { pid }.lives() && threads() <= 1);
        let mut stream = download.end().unwrap_or_else(|error| panic!("{arch}: {error}"));
        assert_eq!(ask(&mut stream), Ok(false), "{arch}: it says that it closes");
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
    }
}

#[test]
fn each_of_a_crowd_of_idle_connections_gets_one_more_response() {
    const CROWD: usize = 400;
    for arch in architectures() {
        let mut setup = Setup::new(arch, &["--connections-max", "1000"]);
        let mut all: Vec<_> = (0..CROWD).map(|_| setup.server.connect()).collect();
        all.iter_mut().for_each(|stream| assert_eq!(ask(stream), Ok(true), "{arch}"));
        setup.upgraded();
        all.iter_mut().for_each(|stream| ask_last(stream, arch));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        setup.stop();
    }
}

/// What `flash status` says.
fn shown(setup: &Setup) -> String {
    String::from_utf8(setup.flash("status", &[]).stdout).unwrap()
}

/// `--drain` is over long before the client takes the rest.
#[test]
fn a_download_goes_on_in_the_old_server_and_the_new_one_shows_it() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &["--drain", "1ms"]);
        let download = Download::begin(&setup.server);
        setup.upgraded();
        let line = format!("process {} finishes its requests", setup.server.pid());
        assert!(shown(&setup).contains(&line), "{arch}: {}", shown(&setup));
        // Whoever comes after the next upgrade sees it, too.
        setup.upgraded();
        assert!(shown(&setup).contains(&line), "{arch}: {}", shown(&setup));
        assert_eq!(setup.flash("status", &[]).status.code(), Some(0), "{arch}");
        assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "{arch}: it waits");
        drop(download.end().unwrap_or_else(|error| panic!("{arch}: {error}")));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        wait_for("it to be forgotten", || !shown(&setup).contains(&line));
        setup.stop();
    }
}

#[test]
fn a_replaced_server_that_is_told_to_stop_finishes_within_drain() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &["--drain", "1ms", "--upgrade-drain", "0"]);
        let download = Download::begin(&setup.server);
        setup.upgraded();
        assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "{arch}: it waits");
        setup.server.signal(Signal::TERM);
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        assert!(download.end().is_err(), "{arch}: it is cut");
        setup.stop();
    }
}

#[test]
fn a_replaced_server_that_is_told_to_stop_does_not_end_at_once() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &["--drain", "60s"]);
        let (download, mut idle) = (Download::begin(&setup.server), setup.server.connect());
        assert_eq!(ask(&mut idle), Ok(true), "{arch}");
        setup.upgraded();
        setup.server.signal(Signal::TERM);
        // What waits for a request ends first.
        assert_eq!(idle.read(&mut [0; 1]).map_err(|error| error.kind()), Ok(0), "{arch}");
        drop(download.end().unwrap_or_else(|error| panic!("{arch}: {error}")));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        setup.stop();
    }
}

#[test]
fn a_replaced_server_opens_its_logs_again() {
    for arch in architectures() {
        let mut setup = Setup::with(arch, &[], |command, folder| {
            command.arg("--access-log").arg(folder.join("log"));
        });
        let download = Download::begin(&setup.server);
        setup.upgraded();
        fs::rename(setup.path("log"), setup.path("log.1")).unwrap();
        setup.server.signal(Signal::USR1);
        wait_for("the new log", || setup.path("log").exists());
        drop(download.end().unwrap_or_else(|error| panic!("{arch}: {error}")));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}: {}", setup.server.said());
        let log = fs::read_to_string(setup.path("log")).unwrap();
        assert!(log.contains("GET /20000000.bin"), "{arch}: {log}");
        setup.stop();
    }
}

/// Log rotators tell the successor only. The old server may not even look into the folder.
#[test]
fn a_replaced_server_writes_to_the_log_that_its_successor_has_opened() {
    let is_superuser = is_superuser("logs in a folder that is root's alone");
    let users = [&[][..], &["--user", "nobody"]];
    let users = if is_superuser { &users[..] } else { &users[..1] };
    for (arch, user) in architectures().flat_map(|arch| users.iter().map(move |user| (arch, *user))) {
        let mut setup = Setup::with(arch, user, |command, folder| {
            let logs = folder.join("logs");
            fs::create_dir(&logs).unwrap();
            set_mode(&logs, 0o700);
            command.arg("--access-log").arg(logs.join("log"));
        });
        let download = Download::begin(&setup.server);
        setup.upgraded();
        fs::rename(setup.path("logs/log"), setup.path("logs/log.1")).unwrap();
        assert!(setup.flash("reopen", &[]).status.success(), "{arch} {user:?}");
        wait_for("the new log", || setup.path("logs/log").exists());
        drop(download.end().unwrap_or_else(|error| panic!("{arch} {user:?}: {error}")));
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch} {user:?}: {}", setup.server.said());
        let log = fs::read_to_string(setup.path("logs/log")).unwrap();
        assert!(log.contains("GET /20000000.bin"), "{arch} {user:?}: {log}");
        setup.stop();
    }
}

/// Two would ask for the same certificates, and the old one for those of the old configuration.
#[test]
fn a_replaced_server_leaves_the_authority_to_its_successor() {
    let mut setup = Setup::without_listen("amped", |command, folder| {
        command.args(["--listen", "http://127.0.0.1:0", "--listen", "https://127.0.0.1:0"]);
        command.args(["--acme", "www.example.org", "--acme-directory", "https://127.0.0.1:1/dir"]);
        command.arg("--acme-folder").arg(folder.join("acme"));
    });
    let mut asking = None;
    wait_for("its process", || {
        asking = family::named(&setup.server, "flash-acme");
        asking.is_some()
    });
    let download = Download::begin(&setup.server);
    setup.upgraded();
    wait_for("the end of its process", || !asking.is_some_and(Process::lives));
    assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "it waits");
    drop(download);
    assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{}", setup.server.said());
    setup.stop();
}
