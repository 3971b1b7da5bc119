//! What a service manager hears (sd_notify): ready, reloading, stopping, and that the server lives.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flash_slowdisk::SlowDisk;
use flash_tests::{ARCHITECTURES, PATIENCE, Server, program, scripts, site};
use rustix::process::Signal;

/// All architectures, and a server in its sandbox.
fn servers() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().chain(["amped --helpers process --sandbox required"])
}

fn server(arch: &str, site: &Path, manager: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program());
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(site).arg("--arch").args(arch.split(' '));
    command.env("NOTIFY_SOCKET", manager).stdin(Stdio::null());
    command
}

/// The next message that begins like this, or `None` after the time.
fn hear(manager: &UnixDatagram, first: &str, patience: Duration) -> Option<String> {
    let give_up = Instant::now() + patience;
    let mut buffer = [0; 4096];
    loop {
        let left = give_up.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        manager.set_read_timeout(Some(left)).unwrap();
        let count = manager.recv(&mut buffer).ok()?;
        let text = String::from_utf8(buffer[..count].to_vec()).unwrap();
        if text.starts_with(first) {
            return Some(text);
        }
    }
}

#[test]
fn the_manager_hears_what_the_server_does() {
    let site = site::make();
    for arch in servers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let server = Server::of(server(arch, site.path(), &path));
        let hear = |first| hear(&manager, first, PATIENCE).unwrap_or_else(|| panic!("{arch}: no {first}"));
        let ready = hear("READY=1\n");
        assert!(ready.contains(&format!("STATUS=serving {}", site.path().display())), "{arch}: {ready}");
        TcpStream::connect(server.address).unwrap_or_else(|error| panic!("{arch}: {error}"));
        server.signal(Signal::HUP);
        let reloading = hear("RELOADING=1\n");
        let us = reloading.split_once("\nMONOTONIC_USEC=").and_then(|(_, us)| us.parse::<u64>().ok());
        assert!(us.is_some_and(|us| us > 0), "{arch}: {reloading}");
        assert!(hear("READY=1\n").contains("STATUS=serves"), "{arch}");
        server.signal(Signal::TERM);
        assert!(hear("STOPPING=1\n").contains("STATUS="), "{arch}");
        drop(server);
    }
}

#[test]
fn an_abstract_address_is_one_too() {
    let site = site::make();
    let name = format!("flash-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&address).unwrap();
    let server = Server::of(server("amped", site.path(), format!("@{name}")));
    assert!(hear(&manager, "READY=1\n", PATIENCE).is_some());
    server.stop();
}

#[test]
fn a_manager_that_is_gone_stops_nobody() {
    let site = site::make();
    let server = Server::of(server("amped", site.path(), "/none/such/notify"));
    assert!(server.said().contains("cannot reach the service manager"), "{}", server.said());
    assert_eq!(server.get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn programs_do_not_know_the_manager() {
    let (site, scripts) = (site::make(), scripts::make());
    scripts::script(scripts.path(), "all", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; env");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let _manager = UnixDatagram::bind(&path).unwrap();
    let mut command = server("amped", site.path(), &path);
    command.arg("--cgi").arg(format!("/cgi={}", scripts.path().display()));
    let server = Server::of(command);
    let environment = String::from_utf8(server.get("/cgi/all").body).unwrap();
    assert!(environment.contains("SCRIPT_NAME=") && !environment.contains("NOTIFY_SOCKET"), "{environment}");
    server.stop();
}

#[test]
fn the_watchdog_hears_of_a_loop_that_turns_and_not_of_one_that_hangs() {
    const INTERVAL: Duration = Duration::from_millis(600);
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let (root, behind) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(root.path().join("slow")).unwrap();
    site::write(&root.path().join("near.txt"), b"near\n");
    site::write(&behind.path().join("far.txt"), b"far\n");
    let disk = SlowDisk::mount(behind.path(), &root.path().join("slow"), "lookup delay fixed:1ms").unwrap();
    for (arch, hangs) in
        [("amped", false), ("pipelined", false), ("mp", false), ("mt", false), ("sped", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut command = server(arch, root.path(), &path);
        command.env("WATCHDOG_USEC", INTERVAL.as_micros().to_string());
        let server = Server::of(command);
        let alive = || hear(&manager, "WATCHDOG=1\n", INTERVAL * 4).is_some();
        assert!(alive() && alive(), "{arch}: an idle server lives");
        disk.rule("hang prefix /").unwrap();
        let mut far = server.connect();
        std::io::Write::write_all(&mut far, b"GET /slow/far.txt HTTP/1.0\r\n\r\n").unwrap();
        // What was sent before the loop began to hang.
        std::thread::sleep(INTERVAL * 2);
        manager.set_nonblocking(true).unwrap();
        while manager.recv(&mut [0; 4096]).is_ok() {}
        manager.set_nonblocking(false).unwrap();
        assert_eq!(alive(), !hangs, "{arch}");
        if hangs {
            assert!(server.said().contains("has been in one turn for"), "{arch}: {}", server.said());
        }
        disk.clear();
        assert!(alive(), "{arch}: it goes on");
        drop(far);
        server.stop();
    }
}
