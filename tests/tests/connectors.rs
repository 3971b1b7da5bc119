//! The process that connects for a server in its sandbox, when a reload or its end replaces it.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;

use flash_tests::family::{self, Process};
use flash_tests::{Server, wait_for};
use rustix::process::Signal;
use tempfile::TempDir;

/// A server in its sandbox, and an application that closes each connection.
struct World {
    server: Server,
    config: PathBuf,
    application: SocketAddr,
    _folder: TempDir,
}

const CONNECTOR: &str = "flash-connect";

impl World {
    fn new(arch: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("flash.toml");
        let application = application();
        write(&config, arch, application, 0);
        let server = Server::start_configured(&config, &[]);
        Self { server, config, application, _folder: folder }
    }

    fn reload(&self, arch: &str, round: usize) {
        write(&self.config, arch, self.application, round);
        self.server.signal(Signal::HUP);
        wait_for("the reload", || self.server.get("/").field("X-Round") == Some(&round.to_string()));
    }

    fn connectors(&self) -> Vec<Process> {
        let all = family::of(&self.server).into_iter();
        all.filter(|process| process.name() == CONNECTOR && process.lives()).collect()
    }
}

fn write(config: &PathBuf, arch: &str, application: SocketAddr, round: usize) {
    let text = format!(
        "listen = '127.0.0.1:0'\nadmin = 'off'\narch = '{arch}'\nhelpers = 'process'\nsandbox = 'required'\n\
         [site.'*']\nroot = '.'\nproxy = 'http://{application}'\nheader = {{ X-Round = '{round}' }}\n"
    );
    fs::write(config, text).expect("the file is written");
}

fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut buffer = [0; 4096];
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count @ 1..) => head.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    address
}

#[test]
fn the_last_connector_ends_with_the_last_configuration() {
    for arch in ["amped", "uring"] {
        let world = World::new(arch);
        for round in 1..4 {
            let last = world.connectors();
            world.reload(arch, round);
            wait_for("the last one ends", || {
                let now = world.connectors();
                now.len() == 1 && now[0] != last[0]
            });
            assert_eq!(world.server.get("/").status, 200);
        }
        world.server.stop();
    }
}

#[test]
fn it_is_said_if_no_connector_can_be_started() {
    let world = World::new("amped");
    let first = family::supervisor(&world.server);
    world.reload("amped", 1);
    let of_reload = family::supervisor(&world.server);
    assert!(first != of_reload);
    let connectors = world.connectors();
    of_reload.kill();
    connectors.into_iter().for_each(Process::kill);
    wait_for("requests are refused", || world.server.get("/").status == 503);
    wait_for("it is said", || world.server.said().contains("cannot start the connector again"));
    // The next configuration has both again.
    world.reload("amped", 2);
    assert_eq!(world.server.get("/").status, 200);
}
