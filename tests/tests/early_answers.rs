//! Clients and proxies that are answered before they have sent the whole request get that answer, and no reset in its place.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flash_tests::{Server, each, need, site, wait_for};
use tempfile::TempDir;

const BODY_BYTES: usize = 45_000_000;
/// Each client asks so many times: a reset may come late.
const TIMES: usize = 4;

/// A server that takes a megabyte, and what is sent to it.
struct Setup {
    server: Server,
    _site: TempDir,
    own: TempDir,
}

impl Setup {
    fn new(arch: &str) -> Self {
        let (site, own) = (site::make(), tempfile::tempdir().unwrap());
        // The authority that --tls makes lies there.
        let data = format!("XDG_DATA_HOME={}", own.path().display());
        let flags = ["--listen", "https://127.0.0.1:0", "--tls", "--processes", "2"];
        let server = Server::start_under(&["env", &data], arch, site.path(), &flags);
        fs::write(own.path().join("body"), vec![b'x'; BODY_BYTES]).unwrap();
        Self { server, _site: site, own }
    }

    fn path(&self, name: &str) -> String {
        self.own.path().join(name).to_str().unwrap().to_owned()
    }

    /// The statuses that curl has seen for an upload, each with the version of HTTP.
    fn curl(&self, method: &str, flags: &[&str]) -> Vec<String> {
        let body = format!("@{}", self.path("body"));
        let ask = || {
            let output = Command::new(need("curl", "curl"))
                .args(["--silent", "--show-error", "--insecure", "--output", "/dev/null"])
                .args(["--write-out", "%{http_code} %{http_version}", "--data-binary", &body])
                .args(["--request", method, "--header", "Expect:"])
                .args(flags)
                .output()
                .expect("curl starts");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            String::from_utf8_lossy(&output.stdout).into_owned() + &error
        };
        (0..TIMES).map(|_| ask()).collect()
    }

    /// The addresses of the server: without TLS, and with it.
    fn urls(&self) -> Vec<String> {
        let said = self.server.said();
        let urls = said.split_whitespace().filter(|word| word.starts_with("http"));
        urls.map(|url| url.trim_end_matches('/').to_owned()).collect()
    }
}

/// A proxy in front of the server, at a Unix socket.
struct Proxy(Child);

impl Proxy {
    fn start(setup: &Setup, program: &str, configuration: &str) -> Self {
        let (file, socket) = (setup.path(program), setup.path("proxy.sock"));
        fs::write(&file, configuration).unwrap();
        let flag = if program == "nginx" { "-c" } else { "-f" };
        let mut command = Command::new(need(program, program));
        let child = command.args([flag, &file]).stdin(Stdio::null()).spawn().expect("it starts");
        wait_for("the proxy", || Path::new(&socket).exists());
        Self(child)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nginx_passes_the_answer_on() {
    each(|arch| {
        let setup = Setup::new(arch);
        let (own, socket, server) = (setup.path(""), setup.path("proxy.sock"), setup.server.address);
        let _nginx = Proxy::start(
            &setup,
            "nginx",
            &format!(
                "daemon off; master_process off; pid {own}/pid; error_log stderr;\n\
                 events {{ worker_connections 64; }}\n\
                 http {{\n\
                   access_log off; client_max_body_size 0;\n\
                   client_body_temp_path {own}/in; proxy_temp_path {own}/out; fastcgi_temp_path {own}/fastcgi;\n\
                   uwsgi_temp_path {own}/uwsgi; scgi_temp_path {own}/scgi;\n\
                   server {{ listen unix:{socket}; location / {{ proxy_pass http://{server}; }} }}\n\
                 }}\n"
            ),
        );
        let got = setup.curl("GET", &["--unix-socket", &socket, "http://h/"]);
        assert_eq!(got, vec!["413 1.1"; TIMES], "{arch}: {}", setup.server.said());
        setup.server.stop();
    });
}

#[test]
fn haproxy_passes_the_answer_on() {
    let setup = Setup::new("amped");
    let socket = setup.path("proxy.sock");
    let _haproxy = Proxy::start(
        &setup,
        "haproxy",
        &format!(
            "defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
             frontend f\n bind unix@{socket}\n default_backend b\n\
             backend b\n server s {}\n",
            setup.server.address
        ),
    );
    let got = setup.curl("GET", &["--unix-socket", &socket, "http://h/"]);
    assert_eq!(got, vec!["413 1.1"; TIMES], "{}", setup.server.said());
    setup.server.stop();
}

#[test]
fn curl_shows_the_answer_over_each_version_of_http() {
    each(|arch| {
        let setup = Setup::new(arch);
        let urls = setup.urls();
        for (url, version, shown) in [
            (&urls[0], "--http1.1", "1.1"),
            (&urls[0], "--http2-prior-knowledge", "2"),
            (&urls[1], "--http1.1", "1.1"),
            (&urls[1], "--http2", "2"),
        ] {
            // A length that is too large is refused at once.
            for (method, more, status) in [
                ("GET", "X-Length: known", "413"),
                ("POST", "X-Length: known", "405"),
                ("POST", "Transfer-Encoding: chunked", "405"),
            ] {
                let got = setup.curl(method, &["--max-time", "60", version, "--header", more, url]);
                let expected = vec![format!("{status} {shown}"); TIMES];
                assert_eq!(got, expected, "{arch} {version} {method} {more}");
            }
        }
        setup.server.stop();
    });
}

/// These send everything before they read.
#[test]
fn clients_in_python_see_the_answer() {
    const SEND: &str = "
import http.client, sys, httpx
body = open(sys.argv[2], 'rb').read()
connection = http.client.HTTPConnection(sys.argv[1])
connection.request('GET', '/', body)
print(connection.getresponse().status)
for http2 in (False, True):
    # It copies the rest of the body for each frame of HTTP/2.
    if http2:
        body = body[:5000000]
    with httpx.Client(http1=not http2, http2=http2, timeout=60) as client:
        print(client.request('GET', f'http://{sys.argv[1]}/', content=body).status_code)
";
    each(|arch| {
        let setup = Setup::new(arch);
        let output = Command::new("/usr/bin/python3")
            .args(["-c", SEND, &setup.server.address.to_string(), &setup.path("body")])
            .output()
            .expect("python3 starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "413\n413\n413\n", "{arch}: {output:?}");
        setup.server.stop();
    });
}

/// A client that never stops is cut, and its bytes are kept nowhere.
#[test]
fn a_client_that_sends_for_ever_is_cut() {
    let site = site::make();
    for arch in ["amped", "mt"] {
        let server = Server::start(arch, site.path(), &[]);
        let mut client = server.connect();
        client.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n").unwrap();
        let before_kb = server.resident_kb();
        let chunk = vec![b'x'; 1 << 20];
        let mut sent = 0;
        while client.write_all(&chunk).is_ok() {
            sent += chunk.len();
            assert!(sent < 2 << 30, "{arch}: nobody cuts it");
        }
        assert!(sent > BODY_BYTES, "{arch}: {sent}");
        assert!(server.resident_kb() < before_kb + 4096, "{arch}");
        let _ = client.read(&mut [0; 1]);
        server.stop();
    }
}
