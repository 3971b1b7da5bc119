//! What a reload and another process do with certificates.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flash_tests::{Server, program, site};
use rcgen::date_time_ymd;
use rustls::pki_types::CertificateDer;

use crate::client::{Authority, stream};
use crate::{CLOSE, each};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode is set");
}

/// A configuration file beside the certificates of an authority.
struct Configured {
    file: PathBuf,
    text: String,
}

impl Configured {
    fn new(authority: &Authority, arch: &str, root: &Path, tls: &str) -> Self {
        let (arch, helpers) = arch.split_once(" --helpers ").unwrap_or((arch, "thread"));
        let (root, admin) = (root.display(), authority.path("admin.sock"));
        let text = format!(
            "root = '{root}'\narch = '{arch}'\nhelpers = '{helpers}'\nprocesses = 1\nverbose = true\n\
             listen = ['https://127.0.0.1:0']\nadmin = 'unix:{}'\n{tls}",
            admin.display()
        );
        let configured = Self { file: authority.path("flash.toml"), text };
        configured.write("");
        configured
    }

    fn write(&self, more: &str) {
        fs::write(&self.file, format!("{}{more}", self.text)).expect("the file is written");
    }

    fn reload(&self) {
        let output = Command::new(program()).args(["reload", "--config"]).arg(&self.file).output();
        let Output { status, stderr, .. } = output.expect("flash runs");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    }
}

#[test]
fn a_reload_needs_neither_the_key_nor_a_certificate_without_remarks() {
    let folder = site::make();
    set_mode(folder.path(), 0o755);
    let is_superuser = rustix::process::geteuid().is_root();
    if !is_superuser {
        eprintln!("NOT TESTED: a key that the server's user may not read takes the superuser");
    }
    each(|arch| {
        let authority = Authority::new();
        // So soon that it is worth a remark, and no client refuses it.
        let (certificate, key) = authority.issue_with("soon", &["localhost"], |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
            params.not_after = date_time_ymd(1970, 1, 1) + now + Duration::from_secs(3 * 24 * 3600);
        });
        set_mode(&authority.path(""), 0o755);
        set_mode(Path::new(&key), 0o600);
        let user = if is_superuser { "user = 'nobody'\n" } else { "" };
        let tls = format!("{user}tls = {{ certificate = '{certificate}', key = '{key}' }}\n");
        let configured = Configured::new(&authority, arch, folder.path(), &tls);
        let server = Server::start_configured(&configured.file, &[]);
        configured.write("target-bytes-max = 100\n");
        configured.reload();
        let mut stream = stream(&server, &authority.client(), "localhost");
        let request = format!("GET /{} HTTP/1.1\r\n{CLOSE}", "x".repeat(200));
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a response");
        assert!(answer.starts_with("HTTP/1.1 414 "), "{arch}: {answer}");
        server.stop();
    });
}

#[test]
fn a_process_that_starts_later_shows_the_certificate_that_is_there_by_then() {
    let folder = site::make();
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost", &["localhost"]);
    let tls = format!("tls = {{ certificate = '{certificate}', key = '{key}' }}\n");
    let configured = Configured::new(&authority, "mp", folder.path(), &tls);
    let server = Server::start_configured(&configured.file, &[]);
    let shown = || -> CertificateDer<'static> {
        let mut stream = stream(&server, &authority.client(), "localhost");
        stream.write_all(format!("GET /a.txt HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
        stream.read_to_end(&mut Vec::new()).expect("a response");
        stream.conn.peer_certificates().expect("certificates")[0].clone().into_owned()
    };
    let first = shown();
    assert_eq!(shown(), first);
    authority.issue("localhost", &["localhost"]);
    configured.reload();
    assert_ne!(shown(), first, "the new worker read the certificate before it served");
    server.stop();
}
