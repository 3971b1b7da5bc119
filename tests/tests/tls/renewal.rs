//! Files of certificates that change while the server runs, and that no reload follows.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_tests::{Server, each, site, wait_for};
use rcgen::{CertificateParams, CustomExtension, date_time_ymd};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::CLOSE;
use crate::client::{Authority, ask, stream};
use crate::client_certificates::{client, issue};

/// Each process of mp looks for itself, and says what it has found.
const RENEWAL: [&str; 6] = ["--processes", "1", "--processes-max", "1", "--tls-renewal", "50ms"];

/// A server whose certificate and key are behind a link.
fn start(arch: &str, folder: &Path, authority: &Authority) -> Server {
    link(authority, "first");
    let [certificate, key] = ["live/cert.pem", "live/cert-key.pem"].map(|name| authority.path(name));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (certificate, key) = (text(&certificate), text(&key));
    let flags = [&RENEWAL[..], &["--tls-certificate", &certificate, "--tls-key", &key]].concat();
    Server::start(arch, folder, &flags)
}

/// Issues a certificate in a folder of its own.
fn issue_in(
    authority: &Authority,
    folder: &str,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) {
    fs::create_dir(authority.path(folder)).expect("a folder");
    authority.issue_with(&format!("{folder}/cert"), names, change);
}

/// Lets the link lead to another folder, with one rename.
fn link(authority: &Authority, to: &str) {
    let new = authority.path("new");
    std::os::unix::fs::symlink(to, &new).expect("a link");
    fs::rename(new, authority.path("live")).expect("a rename");
}

fn shown(server: &Server, authority: &Authority) -> CertificateDer<'static> {
    let mut stream = stream(server, &authority.client(), "localhost");
    stream.write_all(format!("GET /a.txt HTTP/1.1\r\n{CLOSE}").as_bytes()).expect("a request");
    stream.read_to_end(&mut Vec::new()).expect("a response");
    stream.conn.peer_certificates().expect("certificates")[0].clone().into_owned()
}

fn of_file(authority: &Authority, file: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(authority.path(&format!("{file}/cert.pem"))).expect("a certificate")
}

/// Public authorities say where their own certificate is (RFC 5280 §4.2.2.1).
fn with_place_of_issuer(params: &mut CertificateParams) {
    const ACCESS: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 1, 1];
    let url = b"http://ca.example/1";
    let method = [&[6, 8][..], &[0x2b, 6, 1, 5, 5, 7, 0x30, 2]].concat();
    let place = [&[0x86, url.len() as u8][..], url].concat();
    let sequence = |content: Vec<u8>| [&[0x30, content.len() as u8][..], &content].concat();
    let content = sequence(sequence([method, place].concat()));
    params.custom_extensions = vec![CustomExtension::from_oid_content(&ACCESS, content)];
}

#[test]
fn a_renewed_certificate_is_used_without_a_reload_and_a_bad_one_is_not() {
    let folder = site::make();
    each(|arch| {
        let authority = Authority::new();
        let names = ["localhost", "www.example"];
        issue_in(&authority, "first", &names, |_| {});
        let server = start(arch, folder.path(), &authority);
        assert_eq!(shown(&server, &authority), of_file(&authority, "first"), "{arch}");
        issue_in(&authority, "second", &names, |_| {});
        link(&authority, "second");
        let second = of_file(&authority, "second");
        wait_for(arch, || shown(&server, &authority) == second);

        let expire = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
        issue_in(&authority, "expired", &names, expire);
        issue_in(&authority, "stranger", &["other.example"], |_| {});
        issue_in(&authority, "alone", &names, with_place_of_issuer);
        issue_in(&authority, "without-key", &names, |_| {});
        let key = |of: &str| authority.path(&format!("{of}/cert-key.pem"));
        fs::copy(key("first"), key("without-key")).expect("a copy");
        issue_in(&authority, "empty", &names, |_| {});
        fs::write(authority.path("empty/cert.pem"), "").expect("a file");
        for (bad, why) in [
            ("expired", "live/cert.pem: the certificate expired "),
            ("stranger", "live/cert.pem: the certificate is not for localhost, but for other.example"),
            ("alone", "live/cert.pem: the intermediate certificate of CN=Authority of the tests"),
            ("without-key", "live/cert-key.pem: this is not the key of the certificate in "),
            ("empty", "live/cert.pem: there is no certificate in it"),
        ] {
            link(&authority, bad);
            let line = "the certificates stay as they were: ";
            wait_for(&format!("{arch}: {bad}"), || {
                server.said().lines().any(|said| said.contains(line) && said.contains(why))
            });
            // It is looked at some times more.
            thread::sleep(Duration::from_millis(300));
            let said = server.said();
            let count = said.lines().filter(|said| said.contains(why)).count();
            // One look may have seen the certificate behind the new link, and the key behind the old one.
            assert!(count <= 2, "{arch}: {said}");
            assert_eq!(shown(&server, &authority), second, "{arch}: {bad}");
        }
        link(&authority, "first");
        wait_for(arch, || shown(&server, &authority) == of_file(&authority, "first"));
        server.stop();
    });
}

#[test]
fn clients_of_an_authority_that_comes_later_are_known() {
    let folder = site::make();
    each(|arch| {
        let (first, second) = (Authority::new(), Authority::new());
        let (certificate, key) = first.issue("localhost", &["localhost"]);
        let trusted = first.path("clients.pem");
        fs::copy(first.path("authority.pem"), &trusted).expect("a copy");
        let flags = ["--client-ca", trusted.to_str().expect("UTF-8"), "--tls-certificate", &certificate];
        let flags = [&RENEWAL[..], &flags, &["--tls-key", &key]].concat();
        let server = Server::start(arch, folder.path(), &flags);
        let versions = [&rustls::version::TLS13];
        let [before, after] = [&first, &second].map(|issuer| client(&first, &issue(issuer), &versions));
        let request = format!("GET /a.txt HTTP/1.1\r\n{CLOSE}");
        let answer = |config| ask(&server, config, "localhost", &request);
        assert_eq!(answer(&before).expect("an answer").0, HandshakeKind::Full, "{arch}");
        assert!(answer(&after).is_err(), "{arch}");
        fs::copy(second.path("authority.pem"), &trusted).expect("a copy");
        wait_for(arch, || answer(&after).is_ok());
        // A ticket does not outlive the authority.
        assert!(answer(&before).is_err(), "{arch}");
        server.stop();
    });
}
