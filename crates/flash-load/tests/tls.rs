//! TLS and HTTP/2 with Flash, and with servers that others wrote. Counts are those of the servers' logs, and bytes those of their
//! files.

#![forbid(unsafe_code)]

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{closed, errors, load, one_file, run, serve};
use flash_load::{ClientOptions, Keep, Protocol, Report, Tls, Until, Verify};
use tempfile::TempDir;

/// A server in a process of its own, which ends with this.
struct Peer {
    process: Child,
    name: &'static str,
    tls: u16,
    plain: u16,
    folder: TempDir,
}

const FILE_BYTES: usize = 150_001;

impl Drop for Peer {
    fn drop(&mut self) {
        // A parent that is killed leaves its workers behind.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// An authority, a certificate of it for 127.0.0.1, its key, and a site with one file.
fn prepared() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::new([]).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).expect("a certificate");
    let issuer = rcgen::Issuer::new(authority, key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    let write = |name: &str, content: &[u8]| {
        std::fs::write(folder.path().join(name), content).expect("a file");
    };
    write("ca.pem", certificate.pem().as_bytes());
    write("cert.pem", leaf.pem().as_bytes());
    write("key.pem", key.serialize_pem().as_bytes());
    write("log", b"");
    std::fs::create_dir(folder.path().join("site")).expect("a folder");
    let content: Vec<u8> = (0..FILE_BYTES).map(|at| (at * at / 7) as u8).collect();
    write("site/file.bin", &content);
    // Workers of nginx and h2o have fewer rights than whoever runs the tests.
    Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()).status().expect("chmod");
    folder
}

/// Starts a server. `None` where it is not installed.
fn start(name: &'static str) -> Option<Peer> {
    let folder = prepared();
    let (tls, plain) = (free_port(), free_port());
    let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let (site, cert, key, log) = (path("site"), path("cert.pem"), path("key.pem"), path("log"));
    let configuration = path("configuration");
    let mut command = match name {
        "flash" => {
            let mut command = Command::new(flash());
            command.args(["serve", &site, "--listen", &format!("https://127.0.0.1:{tls}")]);
            command.args(["--listen", &format!("127.0.0.1:{plain}"), "--access-log", &log]);
            command.args(["--log-format", "json", "--tls-certificate", &cert, "--tls-key", &key]);
            command
        }
        "nginx" => {
            let text = format!(
                "daemon off; pid {}; error_log /dev/null; worker_processes 1; events {{}}\n\
                 http {{ log_format own '$server_protocol $status $body_bytes_sent $ssl_session_reused.';\n\
                 access_log {log} own; keepalive_requests 100000; root {site};\n\
                 server {{ listen 127.0.0.1:{tls} ssl http2; ssl_certificate {cert};\n\
                 ssl_certificate_key {key}; }}\n\
                 server {{ listen 127.0.0.1:{plain} http2; }} }}\n",
                path("pid")
            );
            std::fs::write(&configuration, text).expect("a file");
            let mut command = Command::new("nginx");
            command.args(["-c", &configuration]);
            command
        }
        "h2o" => {
            let text = format!(
                "error-log: /dev/null\naccess-log:\n  path: {log}\n  format: \"%H %s %b\"\nuser: nobody\n\
                 listen:\n  host: 127.0.0.1\n  port: {tls}\n  ssl:\n    certificate-file: {cert}\n    key-file: {key}\n\
                 listen:\n  host: 127.0.0.1\n  port: {plain}\nhosts:\n  default:\n    paths:\n      \
                 /:\n        file.dir: {site}\n"
            );
            std::fs::write(&configuration, text).expect("a file");
            let mut command = Command::new("h2o");
            command.args(["-c", &configuration]);
            command
        }
        _ => {
            let mut command = Command::new("nghttpd");
            command.args(["-a", "127.0.0.1", "-d", &site, &tls.to_string(), &key, &cert]);
            command
        }
    };
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(process) = started else {
        assert_ne!(name, "flash", "cargo build -p flash makes it");
        eprintln!("NOT TESTED, TLS with {name}: it is not installed");
        return None;
    };
    let mut peer = Peer { process, name, tls, plain, folder };
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", tls)).is_err() {
        assert!(peer.process.try_wait().expect("a child").is_none(), "{name} has ended");
        assert!(Instant::now() < end, "{name} does not accept");
        thread::sleep(Duration::from_millis(20));
    }
    Some(peer)
}

/// Beside the program under test.
fn flash() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_flash-load")).with_file_name("flash")
}

impl Peer {
    fn tls(&self) -> Tls {
        let tls = Tls::new("127.0.0.1").expect("an address");
        tls.with_authorities(&self.folder.path().join("ca.pem")).expect("a certificate")
    }

    fn ask(&self, tls: Option<Tls>, options: ClientOptions, clients: u32, requests: u64) -> Report {
        let port = if tls.is_some() { self.tls } else { self.plain };
        let verify = Verify::Root(self.folder.path().join("site"));
        let options = ClientOptions { verify, ..options };
        let address = ([127, 0, 0, 1], port).into();
        let mut load = load(address, closed(clients), options, Until::Requests(requests));
        load.groups[0].workload = one_file("/file.bin", FILE_BYTES as u64);
        load.server.tls = tls;
        run(&load)
    }

    /// The lines of the log, when there are so many. The log is empty again then.
    fn logged(&self, count: u64) -> Vec<String> {
        let path = self.folder.path().join("log");
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(&path).expect("a log");
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() as u64 >= count {
                std::fs::OpenOptions::new().write(true).truncate(true).open(&path).expect("a log");
                return lines;
            }
            assert!(Instant::now() < end, "{}: {} lines, and not {count}", self.name, lines.len());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn http2(streams: u32) -> ClientOptions {
    ClientOptions { protocol: Protocol::Http2 { streams }, ..ClientOptions::default() }
}

fn counts(report: &Report) -> (u64, u64, u64, u64, u64) {
    let Report { requests, errors_total, connections, handshakes_full, handshakes_resumed, .. } = report;
    (*requests, *errors_total, *connections, *handshakes_full, *handshakes_resumed)
}

/// What a server logs is what we count, over each protocol, and each byte is the file's.
fn counts_agree(name: &'static str) {
    let Some(peer) = start(name) else { return };
    let has_log = name != "nghttpd";
    let logged = |count: u64, protocol: &str| {
        if !has_log {
            return;
        }
        let lines = peer.logged(count);
        assert_eq!(lines.len() as u64, count, "{name} {protocol}");
        let of_protocol = lines.iter().filter(|line| line.contains(protocol)).count() as u64;
        assert_eq!(of_protocol, count, "{name}: {protocol} in {lines:?}");
    };
    let bytes = |report: &Report| assert_eq!(report.body_bytes, report.requests * FILE_BYTES as u64);
    if has_log {
        let report = peer.ask(Some(peer.tls()), ClientOptions::default(), 3, 90);
        assert_eq!(counts(&report), (90, 0, 3, 3, 0), "{name}: {report:?}");
        bytes(&report);
        logged(90, "HTTP/1.1");
        let once = ClientOptions { keep: Keep::Requests(1), ..ClientOptions::default() };
        let report = peer.ask(Some(peer.tls().with_resumption(true)), once, 2, 40);
        let (resumed, handshakes) =
            (report.handshakes_resumed, report.handshakes_full + report.handshakes_resumed);
        assert_eq!((report.requests, report.errors_total, handshakes), (40, 0, 40), "{name}: {report:?}");
        // h2o begins to take its tickets back a moment after its start.
        assert!(resumed == 38 || name == "h2o" && resumed > 0, "{name}: {resumed} were resumed");
        let lines = peer.logged(40);
        if name == "nginx" {
            assert_eq!(lines.iter().filter(|line| line.ends_with(" r.")).count(), 38, "{lines:?}");
        }
        let once = ClientOptions { keep: Keep::Requests(1), ..ClientOptions::default() };
        let report = peer.ask(Some(peer.tls()), once, 2, 20);
        assert_eq!(counts(&report), (20, 0, 20, 20, 0), "{name}: {report:?}");
        logged(20, "HTTP/1.1");
        let report = peer.ask(None, http2(8), 2, 100);
        assert_eq!(counts(&report), (100, 0, 2, 0, 0), "{name}: {report:?}");
        bytes(&report);
        logged(100, "HTTP/2");
    } else {
        // nghttpd accepts before it serves.
        let end = Instant::now() + Duration::from_secs(30);
        while peer.ask(Some(peer.tls()), http2(1), 2, 2).errors_total > 0 {
            assert!(Instant::now() < end, "{name} does not serve");
        }
    }
    let report = peer.ask(Some(peer.tls()), http2(16), 2, 200);
    assert_eq!(counts(&report), (200, 0, 2, 2, 0), "{name}: {report:?}");
    bytes(&report);
    logged(200, "HTTP/2");
    let few = ClientOptions { keep: Keep::Requests(5), ..http2(3) };
    let report = peer.ask(Some(peer.tls()), few, 1, 50);
    assert_eq!(counts(&report), (50, 0, 10, 10, 0), "{name}: {report:?}");
    bytes(&report);
    logged(50, "HTTP/2");
}

#[test]
fn what_flash_logs_is_what_we_count() {
    counts_agree("flash");
}

#[test]
fn what_nginx_logs_is_what_we_count() {
    counts_agree("nginx");
}

#[test]
fn what_h2o_logs_is_what_we_count() {
    counts_agree("h2o");
}

#[test]
fn nghttpd_understands_our_frames() {
    counts_agree("nghttpd");
}

#[test]
fn a_wrong_certificate_a_server_without_tls_and_one_without_http2_are_failed_handshakes() {
    let peer = start("flash").expect("it was built");
    let other = prepared();
    let stranger = Tls::new("127.0.0.1").expect("an address");
    let stranger = stranger.with_authorities(&other.path().join("ca.pem")).expect("a certificate");
    let report = peer.ask(Some(stranger), ClientOptions::default(), 1, 3);
    assert_eq!(errors(&report), [("handshake", 3)], "{report:?}");
    let any = peer.ask(Some(Tls::new("127.0.0.1").expect("an address")), ClientOptions::default(), 1, 3);
    assert_eq!(counts(&any), (3, 0, 1, 1, 0), "without an authority any certificate is right");
    let deaf = serve(|mut visitor| {
        visitor.say("this is no TLS\n");
        // Until the client leaves: a close with bytes unread would be a reset.
        visitor.head();
    });
    let mut load = load(deaf, closed(1), ClientOptions::default(), Until::Requests(2));
    load.server.tls = Some(Tls::new("127.0.0.1").expect("an address"));
    assert_eq!(errors(&run(&load)), [("handshake", 2)]);
}
