//! Servers of HTTP/2 behind this one: Go's, and gRPC of all kinds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use flash_tests::{Server, go_tool, wait_for};
use tempfile::TempDir;

use crate::client::Authority;
use crate::{ARCHITECTURES, curl, folder};

/// A server in Go.
struct GoServer {
    child: Child,
    port: u16,
}

impl GoServer {
    /// `what` is `http` or `grpc`, with the files of a certificate and its key.
    fn start(what: &str, tls: Option<&(String, String)>) -> Self {
        let (child, port) = Self::start_at(what, tls, 0);
        Self { child, port }
    }

    fn start_at(what: &str, tls: Option<&(String, String)>, port: u16) -> (Child, u16) {
        let mut child = Command::new(go_tool("grpc-app"))
            .args([what, &port.to_string()])
            .args(tls.into_iter().flat_map(|(certificate, key)| [certificate, key]))
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).expect("it says its port");
        (child, line.trim().parse().expect("a port"))
    }

    fn server(&self, arch: &str, folder: &TempDir, flags: &[&str]) -> Server {
        let proxy = format!("--proxy=h2c://127.0.0.1:{}", self.port);
        let flags: Vec<&str> = [&*proxy, "--body-bytes-max", "64M"].iter().chain(flags).copied().collect();
        Server::start(arch, folder.path(), &flags)
    }
}

impl Drop for GoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has a client of gRPC ask for everything there is.
fn ask(address: &str, authority: &str) {
    let output =
        Command::new(go_tool("grpc-app")).args(["ask", address, authority]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"right\n", "{said}");
}

#[test]
fn grpc_passes_unary_and_streaming_with_its_trailers() {
    let (folder, app) = (folder(), GoServer::start("grpc", None));
    for arch in ARCHITECTURES {
        let server = app.server(arch, &folder, &[]);
        ask(&server.address.to_string(), "");
        server.stop();
    }
    // The connector connects, from outside of the sandbox.
    let server = app.server("amped", &folder, &["--sandbox", "required", "--helpers", "process"]);
    ask(&server.address.to_string(), "");
}

#[test]
fn grpc_passes_over_tls_on_both_sides() {
    let (folder, authority) = (folder(), Authority::new());
    let files = authority.issue("app", &["localhost"]);
    let app = GoServer::start("grpc", Some(&files));
    let authority = authority.path("authority.pem").display().to_string();
    let proxy = format!("--proxy=h2://localhost:{}", app.port);
    let (certificate, key) = &files;
    let flags = ["--body-bytes-max", "64M", &*proxy, "--proxy-ca", &*authority];
    let flags = [&flags[..], &["--tls-certificate", certificate, "--tls-key", key]].concat();
    let server = Server::start("amped", folder.path(), &flags);
    ask(&server.address.to_string(), &authority);
}

#[test]
fn clients_of_both_versions_share_a_connection() {
    let (folder, app) = (folder(), GoServer::start("http", None));
    let upload = folder.path().join("upload");
    fs::write(&upload, flash_tests::site::pattern(3 << 20)).expect("a file");
    let path = upload.to_str().expect("UTF-8");
    for arch in ARCHITECTURES {
        let server = app.server(arch, &folder, &[]);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let get =
                String::from_utf8(curl(&server, &[version, "-b", "a=1; b=2"], "/a%20b?c")).expect("text");
            assert!(get.contains(" /a%20b?c 0 bytes") && get.contains("http [a=1; b=2]"), "{arch}: {get}");
            let put = String::from_utf8(curl(&server, &[version, "-T", path], "/a")).expect("text");
            assert!(put.starts_with("HTTP/2.0 PUT ") && put.contains("3145728 bytes"), "{arch}: {put}");
            let echo = curl(&server, &[version, "-T", path], "/echo");
            assert!(echo == flash_tests::site::pattern(3 << 20), "{arch} {version}");
            assert_eq!(curl(&server, &[version], "/much").len(), 30_000_000, "{arch} {version}");
            let words = ["-o", "/dev/null", "-w", "%{http_code}", "--no-fail", version, "-T", path];
            assert_eq!(curl(&server, &words, "/early"), b"413", "{arch} {version}");
        }
        server.stop();
    }
    let server = app.server("amped", &folder, &[]);
    let last = String::from_utf8(curl(&server, &[], "/")).expect("text");
    assert!(last.contains(&format!(" {} connections", ARCHITECTURES.len() + 1)), "{last}");
}

#[test]
fn a_server_that_ends_and_comes_again_is_connected_to_anew() {
    let (folder, mut app) = (folder(), GoServer::start("http", None));
    let server = app.server("amped", &folder, &[]);
    assert_eq!(server.get("/a").status, 200);
    app.child.kill().expect("it runs");
    app.child.wait().expect("it ends");
    wait_for("the end is known", || server.get("/a").status == 502);
    // It is there again, at the same port.
    app.child = GoServer::start_at("http", None, app.port).0;
    wait_for("it is connected to", || server.get("/a").status == 200);
}
