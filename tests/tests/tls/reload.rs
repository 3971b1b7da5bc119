//! What a reload and another process do with certificates.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flash_tests::{PATIENCE, PROCESSES, Server, arch_settings, each, is_superuser, program, set_mode, site};
use rcgen::date_time_ymd;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::CLOSE;
use crate::client::{Authority, stream};

/// A configuration file beside the certificates of an authority.
struct Configured {
    file: PathBuf,
    text: String,
}

impl Configured {
    fn new(authority: &Authority, arch: &str, root: &Path, tls: &str) -> Self {
        let arch = arch_settings(arch);
        let (root, admin) = (root.display(), authority.path("admin.sock"));
        let text = format!(
            "root = '{root}'\n{arch}processes = 1\nverbose = true\n\
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
        assert_eq!(self.try_reload(), (true, String::new()));
    }

    /// Whether it succeeds, and what is said to standard error.
    fn try_reload(&self) -> (bool, String) {
        let output = Command::new(program()).args(["reload", "--config"]).arg(&self.file).output();
        let Output { status, stderr, .. } = output.expect("flash runs");
        (status.success(), String::from_utf8(stderr).expect("it is text"))
    }
}

#[test]
fn a_reload_needs_neither_the_key_nor_a_certificate_without_remarks() {
    let folder = site::make();
    let is_superuser = is_superuser("a key that the server's user may not read");
    each(|arch| {
        let authority = Authority::new();
        // So soon that it is worth a remark, and no client refuses it.
        let (certificate, key) = authority.issue_with("soon", &["localhost"], |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
            params.not_after = date_time_ymd(1970, 1, 1) + now + Duration::from_secs(3 * 24 * 3600);
        });
        set_mode(authority.path(""), 0o755);
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

/// The certificate that a new client is shown.
fn shown(server: &Server, authority: &Authority) -> CertificateDer<'static> {
    let mut stream = stream(server, &authority.client(), "localhost");
    stream.write_all(format!("GET /a.txt HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
    stream.read_to_string(&mut String::new()).expect("a response");
    stream.conn.peer_certificates().expect("certificates")[0].clone().into_owned()
}

/// Certificates and keys in a folder of root's, as certbot leaves them.
#[test]
fn keys_that_only_root_may_read_are_renewed_and_changed_while_another_user_serves() {
    if !is_superuser("a key that the server's user may not read") {
        return;
    }
    let folder = site::make();
    each(|arch| {
        let authority = Authority::new();
        set_mode(authority.path(""), 0o755);
        fs::create_dir(authority.path("live")).expect("a folder");
        set_mode(authority.path("live"), 0o700);
        let issue = |file: &str| {
            let (certificate, key) = authority.issue(&format!("live/{file}"), &["localhost"]);
            let of_file = CertificateDer::from_pem_file(&certificate).expect("a certificate");
            set_mode(Path::new(&key), 0o600);
            let tls = format!("tls = {{ certificate = '{certificate}', key = '{key}' }}\n");
            (of_file, tls)
        };
        let user = "user = 'nobody'\ntls-renewal = '50ms'\n";
        let user = if arch == PROCESSES { format!("{user}sandbox = 'required'\n") } else { user.into() };
        let configured = Configured::new(&authority, arch, folder.path(), &user);
        let (first, tls) = issue("one");
        configured.write(&tls);
        let server = Server::start_configured(&configured.file, &[]);
        assert_eq!(shown(&server, &authority), first, "{arch}");
        let (renewed, _) = issue("one");
        let give_up = Instant::now() + PATIENCE;
        while shown(&server, &authority) != renewed {
            assert!(Instant::now() < give_up, "{arch}: {}", server.said());
            thread::sleep(Duration::from_millis(20));
        }
        let (other, tls) = issue("two");
        configured.write(&tls);
        configured.reload();
        assert_eq!(shown(&server, &authority), other, "{arch}");
        // What cannot be read changes nothing.
        for (key, why) in [("none.pem", "No such file or directory"), ("", "it is not a file")] {
            let path = authority.path("live").join(key);
            configured.write(&tls.replace(
                &authority.path("live/two-key.pem").display().to_string(),
                path.to_str().expect("UTF-8"),
            ));
            let (is_done, said) = configured.try_reload();
            assert!(
                !is_done && said.contains(&format!("{}: cannot read it: {why}", path.display())),
                "{arch}: {said}"
            );
            assert_eq!(shown(&server, &authority), other, "{arch}");
        }
        server.stop();
    });
}

#[test]
fn an_answer_about_a_certificate_that_cannot_be_used_is_logged_while_the_server_runs() {
    let folder = site::make();
    each(|arch| {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost", &["localhost"]);
        let tls = format!("tls-renewal = '50ms'\ntls = {{ certificate = '{certificate}', key = '{key}' }}\n");
        let configured = Configured::new(&authority, arch, folder.path(), &tls);
        let server = Server::start_configured(&configured.file, &[]);
        shown(&server, &authority);
        fs::write(format!("{certificate}.ocsp"), "no answer").expect("a file");
        let give_up = Instant::now() + PATIENCE;
        while !server.said().contains("localhost.pem.ocsp: ") {
            assert!(Instant::now() < give_up, "{arch}: {}", server.said());
            thread::sleep(Duration::from_millis(20));
        }
        assert!(server.said().contains("; it is not stapled"), "{arch}: {}", server.said());
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
    let first = shown(&server, &authority);
    assert_eq!(shown(&server, &authority), first);
    authority.issue("localhost", &["localhost"]);
    configured.reload();
    assert_ne!(shown(&server, &authority), first, "the new worker read the certificate before it served");
    server.stop();
}
