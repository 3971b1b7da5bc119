//! Clients that show certificates, have to, or show bad ones; what programs learn of them, and what no client gets around.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flash_tests::{PATIENCE, Server, arch_settings, each, need, program, reply, scripts, site};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, SerialNumber};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, HandshakeKind, version};

use crate::CLOSE;
use crate::client::{Authority, Secured, ask};
use crate::real_clients::run;

/// A certificate for a client, and its key.
pub(crate) fn issue(authority: &Authority) -> (String, String) {
    authority.issue_with("client", &[], |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Tests, and more");
        params.distinguished_name.push(DnType::CommonName, "Ada");
        params.serial_number = Some(SerialNumber::from_slice(&[0x0b, 0xad]));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    })
}

/// A client that trusts one authority, and shows a certificate.
pub(crate) fn client(
    trusted: &Authority,
    (certificate, key): &(String, String),
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let chain = CertificateDer::pem_file_iter(certificate).expect("a file").collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    trusted.client_with(versions, |builder| {
        builder.with_client_auth_cert(chain.expect("certificates"), key).expect("a certificate for a client")
    })
}

/// Waits until the server has said this.
fn wait_until_said(server: &Server, what: &str) {
    let give_up = Instant::now() + PATIENCE;
    while !server.said().contains(what) {
        assert!(Instant::now() < give_up, "{what}: {}", server.said());
        std::thread::sleep(Duration::from_millis(10));
    }
}

const KNOWN: [&str; 5] = [
    "SSL_CLIENT_VERIFY=SUCCESS",
    "SSL_CLIENT_S_DN=CN=Ada,O=Tests\\, and more",
    "SSL_CLIENT_I_DN=CN=Authority of the tests",
    "SSL_CLIENT_S_DN_CN=Ada",
    "SSL_CLIENT_M_SERIAL=0BAD",
];

#[test]
fn a_site_knows_its_clients_and_refuses_others() {
    need("curl", "curl");
    let (folder, scripts) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", scripts.path().display());
    let request = format!("GET /cgi/env HTTP/1.1\r\n{CLOSE}");
    let (of_clients, stranger) = (Authority::new(), Authority::new());
    let (own, strange) = (issue(&of_clients), issue(&stranger));
    let trusted = of_clients.path("authority.pem");
    each(|arch| {
        let flags = ["--processes", "4", "--cgi", &cgi, "--client-ca", trusted.to_str().expect("UTF-8")];
        let secured = Secured::start(arch, folder.path(), &flags);
        let (server, authority) = (&secured.server, &secured.authority);
        for versions in [[&version::TLS13], [&version::TLS12]] {
            let config = client(authority, &own, &versions);
            // The second session is resumed, and the client is known as before.
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let (handshake, bytes) = ask(server, &config, "localhost", &request).expect("an answer");
                assert_eq!(handshake, kind, "{arch}");
                let text = String::from_utf8(reply::only(&bytes).body).expect("a text");
                for line in KNOWN {
                    assert!(text.lines().any(|other| other == line), "{arch} {kind:?}: {line}: {text}");
                }
                assert!(text.contains("SSL_CLIENT_V_END=") && text.contains(" GMT\n"), "{arch}: {text}");
            }
            let none = authority.client_of(&versions);
            assert!(ask(server, &none, "localhost", &request).is_err(), "{arch}: without a certificate");
            let other = client(authority, &strange, &versions);
            assert!(ask(server, &other, "localhost", &request).is_err(), "{arch}: another authority's");
        }
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--http2", "--cert", &own.0, "--key", &own.1, "--cacert"]);
        curl.arg(authority.path("authority.pem"));
        let output = run(curl.arg(format!("https://localhost:{}/cgi/env", server.address.port())), b"");
        let text = String::from_utf8_lossy(&output.stdout);
        for line in KNOWN.into_iter().chain(["SERVER_PROTOCOL=HTTP/2.0"]) {
            assert!(text.lines().any(|other| other == line), "{arch}, HTTP/2: {line}: {output:?}");
        }
        wait_until_said(server, "the client has shown no certificate, and --client-certificate requires one");
        wait_until_said(server, "--client-ca does not accept the client's certificate");
        secured.server.stop();
    });
}

/// Its ticket ends with the certificate, however often it has come back before.
#[test]
fn a_certificate_that_has_expired_comes_back_in_no_session() {
    let folder = site::make();
    let of_clients = Authority::new();
    let trusted = of_clients.path("authority.pem");
    let request = format!("GET /a.txt HTTP/1.1\r\n{CLOSE}");
    each(|arch| {
        let choices = if arch == "mp" { &["off"][..] } else { &["off", "on"] };
        for &early_data in choices {
            let flags = ["--client-ca", trusted.to_str().expect("UTF-8"), "--early-data", early_data];
            let secured = Secured::start(arch, folder.path(), &flags);
            let until = SystemTime::now() + Duration::from_secs(10);
            let (file, change) = (format!("until-{arch}-{early_data}"), |params: &mut CertificateParams| {
                params.not_after = until.into();
            });
            let expiring = of_clients.issue_with(&file, &[], change);
            let clients = [[&version::TLS13], [&version::TLS12]]
                .map(|versions| client(&secured.authority, &expiring, &versions));
            let ask = |config| ask(&secured.server, config, "localhost", &request).map(|(kind, _)| kind);
            for config in &clients {
                for kind in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
                    assert_eq!(ask(config).expect("an answer"), kind, "{arch}");
                }
            }
            // The certificate's time is in whole seconds.
            while SystemTime::now() < until + Duration::from_secs(1) {
                std::thread::sleep(Duration::from_millis(50));
            }
            for config in &clients {
                let answer = ask(config);
                assert!(answer.is_err(), "{arch}, early data {early_data}: {answer:?}");
            }
            wait_until_said(&secured.server, "--client-ca does not accept the client's certificate");
            secured.server.stop();
        }
    });
}

#[test]
fn a_client_that_is_only_asked_may_have_none() {
    let (folder, scripts) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", scripts.path().display());
    let request = format!("GET /cgi/env HTTP/1.1\r\nSSL-Client-Verify: SUCCESS\r\n{CLOSE}");
    let (of_clients, stranger) = (Authority::new(), Authority::new());
    let (own, strange) = (issue(&of_clients), issue(&stranger));
    let trusted = of_clients.path("authority.pem");
    each(|arch| {
        let ca = ["--client-ca", trusted.to_str().expect("UTF-8"), "--client-certificate", "asked"];
        let flags = [&["--processes", "4", "--cgi", &cgi], &ca[..]].concat();
        let secured = Secured::start(arch, folder.path(), &flags);
        let authority = &secured.authority;
        let versions = [&version::TLS13];
        for (config, verified) in [
            (authority.client(), Some("NONE")),
            (client(authority, &own, &versions), Some("SUCCESS")),
            (client(authority, &strange, &versions), None),
        ] {
            let answer = ask(&secured.server, &config, "localhost", &request).ok();
            assert_eq!(answer.is_some(), verified.is_some(), "{arch}: {verified:?}");
            let Some(((_, bytes), verified)) = answer.zip(verified) else { continue };
            let text = String::from_utf8(reply::only(&bytes).body).expect("a text");
            let says = |line: &str| text.lines().any(|other| other == line);
            assert!(says(&format!("SSL_CLIENT_VERIFY={verified}")), "{arch}: {text}");
            assert_eq!(text.contains("SSL_CLIENT_S_DN="), verified == "SUCCESS", "{arch}: {text}");
        }
        secured.server.stop();
    });
}

/// A header of the PROXY protocol: 203.0.113.5 has connected to 192.0.2.1 with TLS, and has shown a certificate.
const OF_TLS: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14\xcb\0\x71\x05\xc0\0\x02\x01\x12\x68\0\x50\x20\0\x05\x07\0\0\0\0";

#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn the_name_of_another_site_is_no_way_around() {
    need("curl", "curl");
    let folder = site::make();
    let of_clients = Authority::new();
    let own = issue(&of_clients);
    let trusted = of_clients.path("authority.pem");
    each(|arch| {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("both", &["open.example", "closed.example"]);
        let file = authority.path("flash.toml");
        let site = |host: &str, more: &str| {
            format!(
                "[site.\"{host}\"]\nroot = \"{}\"\ntls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n\
                 https = \"required\"\n{more}\n",
                folder.path().display()
            )
        };
        let ca = format!("client-ca = \"{}\"", trusted.display());
        let listen = "listen = [\"https://127.0.0.1:0\", \"http://127.0.0.1:0\", \"127.0.0.1:0,proxy-protocol\"]\n\
                      trusted-proxies = \"127.0.0.1\"\nverbose = true";
        let sites = [site("open.example", ""), site("closed.example", &ca)].concat();
        fs::write(&file, format!("{}{listen}\n{sites}", arch_settings(arch))).expect("a file");
        let server = Server::start_configured(&file, &[]);
        let plain = authority.client();
        let status = |config: &Arc<ClientConfig>, name: &str, host: &str| {
            let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            ask(&server, config, name, &request).map(|(_, bytes)| reply::only(&bytes).status).ok()
        };
        let known = client(&authority, &own, &[&version::TLS13]);
        for (config, name, host, expected) in [
            (&plain, "open.example", "open.example", Some(200)),
            (&plain, "open.example", "closed.example", Some(421)),
            (&plain, "closed.example", "closed.example", None),
            (&plain, "closed.example", "open.example", None),
            (&known, "closed.example", "closed.example", Some(200)),
            // Whom one site knows is nobody at the other.
            (&known, "open.example", "closed.example", Some(421)),
        ] {
            assert_eq!(status(config, name, host), expected, "{arch}: {name} and {host}");
        }
        let port = server.address.port();
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{http_version}",
            "-H",
            "Host: closed.example",
        ]);
        curl.arg("--cacert").arg(authority.path("authority.pem"));
        curl.args(["--resolve", &format!("open.example:{port}:127.0.0.1")]);
        let output = run(curl.arg(format!("https://open.example:{port}/a.txt")), b"");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "421 2", "{arch}: {output:?}");
        // Without TLS, also where a trusted proxy says that its client has spoken TLS.
        let said = server.said();
        let port = |after: &str| after.split('/').next().and_then(|port| port.parse::<u16>().ok());
        let ports: Vec<_> = said.split("http://127.0.0.1:").skip(1).filter_map(port).collect();
        for (port, header, field, expected) in [
            (ports[0], &b""[..], "", 308),
            (ports[0], b"", "X-Forwarded-Proto: https\r\n", 403),
            (ports[1], OF_TLS, "", 403),
        ] {
            let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a listener");
            let head =
                format!("GET /a.txt HTTP/1.1\r\nHost: closed.example\r\n{field}Connection: close\r\n\r\n");
            socket.write_all(&[header, head.as_bytes()].concat()).expect("a request");
            let mut bytes = Vec::new();
            socket.read_to_end(&mut bytes).expect("an answer");
            assert_eq!(reply::only(&bytes).status, expected, "{arch}: {field}{header:?}");
        }
        server.stop();
    });
}

#[test]
fn what_cannot_hold_is_refused_at_the_start() {
    let folder = site::make();
    let root = folder.path().to_str().expect("UTF-8");
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost", &["localhost"]);
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let ca = authority.path("authority.pem");
    let ca = ["--client-ca", ca.to_str().expect("UTF-8")];
    let both = ["--listen", "http://127.0.0.1:0", "--listen", "https://127.0.0.1:0"];
    let key_as_ca = ["--client-ca", &*key];
    for (flags, code, why) in [
        (ca.to_vec(), 2, "--client-ca needs TLS"),
        ([&tls[..], &ca, &both].concat(), 2, "needs --https required"),
        ([&tls[..], &key_as_ca].concat(), 1, "there is no certificate of an authority in it"),
        (
            [&tls[..], &["--client-ca", "/nowhere.pem"]].concat(),
            1,
            "/nowhere.pem: cannot read it: No such file",
        ),
    ] {
        let output =
            Command::new(program()).args(["serve", root]).args(&flags).output().expect("flash starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(why), "{flags:?}: {said}");
    }
}
