//! Certificates that come, change and go with a reload, while other clients are served.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use flash_tests::{PROCESSES, reply, tool};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, HandshakeKind};
use serde_json::Value;

use crate::client::{Authority, Stream, ask, stream};
use crate::setup::{Setup, architectures, each, without_sandbox};

const STAYS: &str = "a.example";
const COMES: &str = "b.example";

/// A request over a connection that stays open: the status, and the body.
fn get(stream: &mut Stream, host: &str) -> (u16, String) {
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the connection is open");
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while !is_whole(&answer) {
        let count = stream.read(&mut buffer).expect("the connection is open");
        assert!(count > 0, "the server has closed the connection");
        answer.extend_from_slice(&buffer[..count]);
    }
    let reply = reply::only(&answer);
    (reply.status, String::from_utf8(reply.body).expect("it is text"))
}

/// Whether the body is as long as its field says.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = reply::find(answer, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]);
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
    length.and_then(|length| length.parse().ok()) == Some(answer.len() - end - 4)
}

/// The certificate that a new client of this host is shown.
fn shown(setup: &Setup, config: &Arc<ClientConfig>, host: &str) -> CertificateDer<'static> {
    let mut stream = stream(&setup.server, config, host);
    get(&mut stream, host);
    stream.conn.peer_certificates().expect("certificates")[0].clone().into_owned()
}

fn site(host: &str, root: &str, (certificate, key): &(String, String)) -> String {
    format!("[site.'{host}']\nroot = '{root}'\ntls = {{ certificate = '{certificate}', key = '{key}' }}\n")
}

#[test]
fn a_site_with_a_certificate_comes_changes_and_goes_while_others_are_served() {
    each(architectures(), |arch| {
        let authority = Authority::new();
        let issue = |file: &str, host: &str| authority.issue(file, &[host]);
        let certificates = ["one", "two"].map(|file| issue(file, COMES));
        let all = |more: &str| {
            let own = authority.path("stays.pem").display().to_string();
            let key = authority.path("stays-key.pem").display().to_string();
            let stays = site(STAYS, "old", &(own, key));
            format!("listen = 'https://127.0.0.1:0'\n# root = none\n{stays}names = ['127.0.0.1']\n{more}")
        };
        issue("stays", STAYS);
        let setup = Setup::start(arch, &all(""));
        let load = Command::new(tool("load"))
            .arg(format!("https://{}/a.txt", setup.server.address))
            .args(["--clients", "4", "--think", "5ms", "--duration", "8s", "--json", "-"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("flash load starts");
        let config = authority.client();
        let mut kept = stream(&setup.server, &config, STAYS);
        assert_eq!(get(&mut kept, STAYS), (200, "old".into()), "{arch}");
        assert_eq!(get(&mut kept, COMES).0, 421, "{arch}: there is no such site");

        setup.change(&all(&site(COMES, "new", &certificates[0])));
        let first = shown(&setup, &config, COMES);
        let mut visitor = stream(&setup.server, &config, COMES);
        assert_eq!(get(&mut visitor, COMES), (200, "new".into()), "{arch}");

        setup.change(&all(&site(COMES, "new", &certificates[1])));
        let second = shown(&setup, &authority.client(), COMES);
        assert!(first != second, "{arch}: new clients are shown the new certificate");
        // A connection with TLS cannot leave its process of mp, and ends there.
        if arch != "mp" {
            assert_eq!(get(&mut visitor, COMES), (200, "new".into()), "{arch}: its session stays");
            assert_eq!(get(&mut kept, COMES).0, 421, "{arch}: it was shown another site's");
            assert_eq!(get(&mut kept, STAYS), (200, "old".into()), "{arch}");
        }

        // The same file with another certificate in it.
        authority.issue("two", &[COMES]);
        setup.change(&all(&site(COMES, "new", &certificates[1])));
        assert!(shown(&setup, &authority.client(), COMES) != second, "{arch}: the file was read again");

        let resumed = |host: &str| {
            let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            ask(&setup.server, &config, host, &request).expect("an answer").0
        };
        setup.change(&all(""));
        assert_eq!(resumed(STAYS), HandshakeKind::Resumed, "{arch}: tickets stay valid");
        if arch != "mp" {
            assert_eq!(get(&mut visitor, COMES).0, 421, "{arch}: the site is gone");
            assert_eq!(get(&mut kept, STAYS), (200, "old".into()), "{arch}");
        }

        // What is wrong is said at its place, and changes nothing. In a sandbox only its server can read a key.
        let mixed = (certificates[0].0.clone(), certificates[1].1.clone());
        setup.write(&all(&site(COMES, "new", &mixed)));
        let (code, said) = setup.reload();
        assert_eq!(code, Some(1), "{arch}: {said}");
        assert!(
            said.contains("not the key of the certificate")
                && (said.contains("flash.toml:") || arch == PROCESSES),
            "{arch}: {said}"
        );
        assert_eq!(get(&mut stream(&setup.server, &config, STAYS), STAYS).0, 200, "{arch}");

        let report = load.wait_with_output().expect("flash load ends");
        let report: Value = serde_json::from_slice(&report.stdout).expect("it reports as JSON");
        assert!(report["requests"].as_u64() > Some(0), "{arch}: {report}");
        assert_eq!(report["errors_total"].as_u64(), Some(0), "{arch}: {report}");
        setup.server.stop();
    });
}

#[test]
fn a_listener_begins_and_ceases_to_speak_tls() {
    each(without_sandbox(), |arch| {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost", &["localhost"]);
        let ca = authority.path("authority.pem");
        let plain = "listen = 'http://127.0.0.1:0'\n";
        let secured = format!(
            "listen = 'https://127.0.0.1:0'\ntls = {{ certificate = '{certificate}', key = '{key}' }}\n"
        );
        let setup = Setup::start(arch, plain);
        assert_eq!(setup.body("/a.txt"), "old", "{arch}");
        let config = authority.client();
        for _ in 0..2 {
            setup.change(&secured);
            let mut client = stream(&setup.server, &config, "localhost");
            assert_eq!(get(&mut client, "localhost"), (200, "old".into()), "{arch}");
            setup.change(&format!("{secured}client-ca = '{}'\nhttps = 'required'\n", ca.display()));
            let request = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            let refused = ask(&setup.server, &authority.client(), "localhost", request);
            assert!(refused.is_err(), "{arch}: clients have to show a certificate");
            if arch != "mp" {
                assert_eq!(get(&mut client, "localhost").0, 421, "{arch}: it has shown none");
            }
            setup.change(plain);
            assert_eq!(setup.body("/a.txt"), "old", "{arch}");
        }
        setup.server.stop();
    });
}

/// The next start would fail for it. A watch goes on with what it has.
#[test]
fn a_certificate_that_is_gone_fails_a_reload_at_its_line() {
    each(architectures(), |arch| {
        let authority = Authority::new();
        let files = authority.issue("stays", &[STAYS]);
        let settings =
            format!("listen = 'https://127.0.0.1:0'\n# root = none\n{}", site(STAYS, "old", &files));
        let setup = Setup::start(arch, &settings);
        std::fs::rename(&files.0, format!("{}.old", files.0)).expect("a renamed file");
        let (code, said) = setup.reload();
        assert_eq!(code, Some(1), "{arch}: {said}");
        assert!(said.contains(&files.0), "{arch}: {said}");
        // In a sandbox the file cannot be read again.
        assert!(said.contains("tls = {") || arch == PROCESSES, "{arch}: {said}");
        assert_eq!(setup.in_use(), [1], "{arch}");
        let config = authority.client();
        let mut kept = stream(&setup.server, &config, STAYS);
        assert_eq!(get(&mut kept, STAYS), (200, "old".into()), "{arch}");
        std::fs::rename(format!("{}.old", files.0), &files.0).expect("a renamed file");
        let (code, said) = setup.reload();
        assert_eq!(code, Some(0), "{arch}: {said}");
        setup.server.stop();
    });
}
