//! A server in its sandbox, which makes no connections: its connector does, to what is configured.

use std::fs;
use std::path::Path;

use flash_tests::family;
use flash_tests::{Server, need, wait_for};
use rustix::process::Signal;

use super::{App, folder, told};

/// A configuration of a server in its sandbox.
fn write(config: &Path, arch: &str, rules: &str) {
    let text = format!(
        "listen = '127.0.0.1:0'\nadmin = 'off'\narch = '{arch}'\nhelpers = 'process'\nsandbox = 'required'\napp-max = 1\n\
         [site.'*']\nroot = '.'\n{rules}\n"
    );
    fs::write(config, text).expect("the file is written");
}

#[test]
fn an_application_is_reached_from_the_sandbox_and_by_a_reload_another_one() {
    let (folder, one, other) = (folder(), App::node(), App::node());
    let config = folder.path().join("flash.toml");
    for arch in ["amped", "uring"] {
        write(&config, arch, &format!("proxy = 'http://localhost:{}'", one.port()));
        let server = Server::start_configured(&config, &[]);
        assert!(server.said().contains("helper processes, sandbox"), "{}", server.said());
        let pid = || told(&server.get("/a"))["pid"].clone();
        assert_eq!(server.get("/a").status, 200);
        family::named(&server, "flash-connect").expect("there is a connector").kill();
        // What is kept goes on. After that the next one connects.
        one.stop_one();
        one.start_again();
        wait_for("it is reached again", || server.get("/a").status == 200);
        let of_one = pid();
        write(&config, arch, &format!("proxy = '{}'", other.url()));
        server.signal(Signal::HUP);
        wait_for("both loops ask the other one", || (0..8).all(|_| pid() != of_one));
        assert_eq!(pid(), pid());
        server.stop();
    }
}

#[test]
fn what_cannot_be_reached_from_the_sandbox_is_said() {
    let folder = folder();
    let config = folder.path().join("flash.toml");
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
    write(&config, "amped", &format!("proxy = 'http://127.0.0.1:{port}'"));
    let server = Server::start_configured(&config, &[]);
    let said = format!("--proxy http://127.0.0.1:{port}: cannot connect yet (Connection refused");
    wait_for("it is said", || server.said().contains(&said));
    assert_eq!(server.get("/a").status, 502);
}

/// Its processes listen at sockets that the connector makes, and outlive a reload.
#[test]
fn applications_run_behind_a_sandbox() {
    let folder = folder();
    let config = folder.path().join("flash.toml");
    fs::write(folder.path().join("a.php"), "<?php echo getmypid();").expect("a file");
    let app = format!("app = {{ '.php' = '{}' }}\n", need("php-cgi", "php-cgi").display());
    write(&config, "amped", &format!("{app}header = {{ X-Round = '0' }}"));
    let server = Server::start_configured(&config, &[]);
    let pid = || String::from_utf8(server.get("/a.php").body).expect("a number");
    let first = pid();
    assert!(first.parse::<u32>().is_ok(), "{first}");
    for round in 1..4 {
        write(&config, "amped", &format!("{app}header = {{ X-Round = '{round}' }}"));
        server.signal(Signal::HUP);
        wait_for("the reload", || server.get("/a.php").field("X-Round") == Some(&round.to_string()));
        assert_eq!(pid(), first, "its process stays");
    }
    family::named(&server, "flash-connect").expect("there is a connector").kill();
    (0..5).for_each(|_| assert_eq!(pid(), first));
}
