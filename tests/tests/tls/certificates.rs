//! Which certificate answers, which requests it may answer, and what is said about it.

use std::fs;
use std::process::{Command, Output};

use flash_tests::{Server, arch_settings, each, need, program, reply, site, wait_for};
use rcgen::{CustomExtension, date_time_ymd};

use crate::CLOSE;
use crate::client::{Authority, Secured, ask};

/// Two sites with certificates of their own, and one that shares the first one's.
fn sites(authority: &Authority, folder: &str, before: &str) -> String {
    let (one, one_key) =
        authority.issue("one", &["one.example", "shared.example", "unknown.example", "127.0.0.1"]);
    let (other, other_key) = authority.issue("other", &["*.other.example"]);
    format!(
        "{before}\n\
         [site.\"one.example\"]\nroot = \"{folder}\"\ntls = {{ certificate = \"{one}\", key = \"{one_key}\" }}\n\
         [site.\"shared.example\"]\nroot = \"{folder}\"\ntls = [{{ certificate = \"{one}\", key = \"{one_key}\" }}]\n\
         [site.\"*.other.example\"]\nroot = \"{folder}\"\ntls = {{ certificate = \"{other}\", key = \"{other_key}\" }}\n\
         [site.\"plain.example\"]\nroot = \"{folder}\"\n"
    )
}

/// What curl gets over HTTP/2, written as it is told to, for a request with this host.
fn over_http2(flags: &[&str], written: &str, host: &str, url: &str) -> String {
    let mut curl = Command::new(need("curl", "curl"));
    curl.args(["--silent", "--max-time", "20", "--output", "/dev/null"]).args(flags);
    curl.args(["--write-out", &format!("%{{http_version}} {written}"), "--header", &format!("Host: {host}")]);
    let output = curl.arg(url).output().expect("curl runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_single_site_answers_clients_that_name_no_host_or_another_one() {
    let folder = site::make();
    each(|arch| {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("site", &["localhost", "unknown.example", "127.0.0.1"]);
        let flags = ["--tls-certificate", &certificate, "--tls-key", &key];
        let server = Server::start(arch, folder.path(), &flags);
        for name in ["127.0.0.1", "unknown.example", "localhost"] {
            let request = format!("GET /a.txt HTTP/1.1\r\n{CLOSE}");
            let (_, bytes) = ask(&server, &authority.client(), name, &request).expect("an answer");
            assert_eq!(reply::only(&bytes).body, b"0123456789", "{arch}: {name}");
        }
        server.stop();
    });
}

#[test]
fn a_name_chooses_the_certificate_and_a_request_for_another_one_is_misdirected() {
    let folder = site::make();
    each(|arch| {
        let authority = Authority::new();
        let before = format!("{}listen = [\"https://127.0.0.1:0\"]\nverbose = true", arch_settings(arch));
        let file = authority.path(&format!("{arch}.toml"));
        let text = sites(&authority, folder.path().to_str().expect("UTF-8"), &before);
        fs::write(&file, text).expect("a file");
        let server = Server::start_configured(&file, &[]);
        let config = authority.client();
        let status = |name: &str, host: &str| {
            let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            ask(&server, &config, name, &request).map(|(_, bytes)| reply::only(&bytes).status).ok()
        };
        for (name, host, expected) in [
            ("one.example", "one.example", Some(200)),
            ("ONE.example", "One.Example.:443", Some(200)),
            ("shared.example", "shared.example", Some(200)),
            // The same certificate is for both.
            ("one.example", "shared.example", Some(200)),
            ("a.other.example", "a.other.example", Some(200)),
            ("a.other.example", "b.other.example", Some(200)),
            ("a.other.example", "one.example", Some(421)),
            ("one.example", "a.other.example", Some(421)),
            ("one.example", "plain.example", Some(421)),
            ("one.example", "nowhere.example", Some(421)),
            // The first certificate answers, and it is not for this name.
            ("nowhere.example", "one.example", None),
            // It answers for a name that no site has, and for clients that send none.
            ("unknown.example", "one.example", Some(200)),
            ("unknown.example", "unknown.example", Some(421)),
            ("unknown.example", "a.other.example", Some(421)),
            ("127.0.0.1", "shared.example", Some(200)),
            ("127.0.0.1", "a.other.example", Some(421)),
        ] {
            assert_eq!(status(name, host), expected, "{arch}: {name} and {host}");
            let port = server.address.port();
            let resolve = format!("{name}:{port}:{}", server.address.ip());
            let trusted = authority.path("authority.pem");
            let trusted = trusted.to_str().expect("UTF-8");
            let flags = ["--http2", "--cacert", trusted, "--resolve", &resolve];
            let got = over_http2(&flags, "%{http_code}", host, &format!("https://{name}:{port}/a.txt"));
            let expected = expected.map_or("0 000".into(), |status| format!("2 {status}"));
            assert_eq!(got, expected, "{arch}, HTTP/2: {name} and {host}");
        }
        server.stop();
    });
}

#[test]
fn requests_without_tls_are_redirected_if_it_is_required() {
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(
            arch,
            folder.path(),
            &[
                "--listen",
                "http://127.0.0.1:0",
                "--listen",
                "https://127.0.0.1:0",
                "--https",
                "required",
                "--hsts",
                "1h",
            ],
        );
        let said = secured.server.said();
        let port = |scheme: &str| -> u16 {
            let after = said.split(&format!("{scheme}://127.0.0.1:")).nth(1).expect("an address");
            after.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
        };
        let https = port("https");
        let plain = secured.server.get("/a%20b?c=d");
        assert_eq!(plain.status, 308, "{arch}: {said}");
        assert_eq!(plain.field("Location"), Some(format!("https://h:{https}/a%20b?c=d").as_str()), "{arch}");
        assert_eq!(plain.field("Strict-Transport-Security"), None, "{arch}");
        let got = over_http2(
            &["--http2-prior-knowledge"],
            "%{http_code} %{redirect_url}",
            "h",
            &format!("http://{}/a%20b?c=d", secured.server.address),
        );
        assert_eq!(got, format!("2 308 https://h:{https}/a%20b?c=d"), "{arch}, HTTP/2");
        let address = (std::net::Ipv4Addr::LOCALHOST, https);
        let mut socket = std::net::TcpStream::connect(address).expect("a listener");
        let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
        let mut client = rustls::ClientConnection::new(secured.authority.client(), name).expect("a client");
        let mut stream = rustls::Stream::new(&mut client, &mut socket);
        use std::io::{Read, Write};
        stream.write_all(format!("GET /a.txt HTTP/1.1\r\n{}", crate::CLOSE).as_bytes()).expect("a request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a response");
        let reply = reply::only(&bytes);
        assert_eq!(
            (reply.status, reply.field("Strict-Transport-Security")),
            (200, Some("max-age=3600")),
            "{arch}"
        );
        secured.server.stop();
    });
}

fn flash(words: &[&str]) -> Output {
    Command::new(program()).args(words).output().expect("flash starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// As `openssl x509 -req` makes them without extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBJTCBywIUZf3vlqyQmUScgQgw+VYXfI8S89AwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNzIxMDYyMVoYDzIxMDkwMTE2MjEwNjIx
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAR8bA4TIh8GcnXg0Rk4Yulhy4Lo1OeRWMWMf5V7RYXpyywMF5U+hVxKnL/k41N5
FfPKZzpz5PMc2667X62fPX4SMAoGCCqGSM49BAMCA0kAMEYCIQDIufbaGARx3W5l
RJ6b2LdcAQT7vmDXBJL/zIoCV1JOQwIhAPrMdTD5A8cp3l/H1dCybBc2BnB9m8u8
851W3Dub8Tu6
-----END CERTIFICATE-----
";

#[test]
fn a_certificate_that_cannot_be_used_is_an_error_with_its_path() {
    let folder = site::make();
    let root = folder.path().to_str().expect("UTF-8");
    let authority = Authority::new();
    let (good, key) = authority.issue("good", &["localhost"]);
    let (_, other_key) = authority.issue("other", &["localhost"]);
    let file = |name: &str, text: &str| {
        let path = authority.path(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let nonsense = file("nonsense.pem", "nonsense");
    let sealed = file(
        "sealed.pem",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBXBgkqhkiG9w0BBQ0=\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let one_line = fs::read_to_string(&good).expect("a certificate").replace('\n', "");
    let (one_line, version_1) = (file("one-line.pem", &one_line), file("version-1.pem", VERSION_1));
    for (certificate, key, why) in [
        (&*one_line, &*key, "a line that begins with ----- has to be one marker"),
        (&version_1, &key, "a certificate of version 1"),
        (&*good, &*other_key, "this is not the key of the certificate"),
        (&nonsense, &key, "there is no certificate in it"),
        (&good, &nonsense, "there is no private key in it"),
        (&good, &sealed, "encrypted with a passphrase"),
        ("/nowhere.pem", &key, "No such file"),
        (&good, root, "not a file"),
    ] {
        let output = flash(&[
            "serve",
            root,
            "--listen",
            "127.0.0.1:0",
            "--tls-certificate",
            certificate,
            "--tls-key",
            key,
        ]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
        let is_of_key =
            ["not the key", "private key", "passphrase", "not a file"].iter().any(|of| why.contains(of));
        let path = if is_of_key { key } else { certificate };
        assert!(said(&output).contains(path), "{path}: {}", said(&output));
    }
    for (words, why) in [
        (&["--listen", "https://127.0.0.1:0"][..], "no certificate is given"),
        (&["--tls-certificate", &good], "--tls-key"),
        (&["--https", "required"], "a listener that speaks TLS"),
        (
            &["--listen", "http://127.0.0.1:0", "--tls-certificate", &good, "--tls-key", &key],
            "no listener speaks TLS",
        ),
        (&["--tls-certificate", &good, "--tls-key", &key, "--hsts", "1h"], "--https required"),
    ] {
        let output = flash(&[&["serve", root], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
    }
}

#[test]
fn what_clients_may_not_like_is_said_and_found_by_flash_check() {
    let folder = site::make();
    let root = folder.path().to_str().expect("UTF-8");
    let authority = Authority::new();
    let (expired, key) = authority.issue_with("expired", &["example.org"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        // RFC 7633: status_request.
        let features = vec![0x30, 3, 2, 1, 5];
        let features = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], features);
        params.custom_extensions = vec![features];
    });
    let file = authority.path("flash.toml");
    let text = format!(
        "listen = \"https://127.0.0.1:0\"\n[site.\"www.example.org\"]\nroot = \"{root}\"\n\
         tls = {{ certificate = \"{expired}\", key = \"{key}\" }}\n"
    );
    fs::write(&file, text).expect("a file");
    let output = flash(&["check", "--config", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "it is served all the same: {}", said(&output));
    assert!(output.stdout.ends_with(b"flash.toml has no errors and 3 warnings\n"));
    assert!(said(&output).contains("flash.toml:4:1"), "{}", said(&output));
    let server = Server::start_configured(&file, &[]);
    for why in [
        "the certificate expired ",
        "the certificate is not for www.example.org, but for example.org",
        "the certificate asks for OCSP stapling (must-staple)",
    ] {
        assert!(said(&output).contains(&format!("warning: {expired}: {why}")), "{}", said(&output));
        wait_for(why, || server.said().contains(why));
    }
    server.stop();
    // One certificate for several sites is one.
    let of_all = format!(
        "listen = \"https://127.0.0.1:0\"\ntls = {{ certificate = \"{expired}\", key = \"{key}\" }}\n\
         [site.\"example.org\"]\nroot = \"{root}\"\n[site.\"a.test\"]\nroot = \"{root}\"\n[site.\"b.test\"]\nroot = \"{root}\"\n"
    );
    fs::write(&file, of_all).expect("a file");
    let output = flash(&["check", "--config", file.to_str().expect("UTF-8")]);
    let server = Server::start_configured(&file, &[]);
    wait_for("the last of them", || server.said().contains("is not for b.test"));
    for said in [said(&output), server.said()] {
        assert_eq!(said.matches("the certificate expired ").count(), 1, "{said}");
    }
    server.stop();
    for (text, why) in [
        ("tls = { certificate = \"/c.pem\" }", "needs its `key`"),
        ("tls = { certificate = \"/c.pem\", key = \"/k.pem\", password = \"x\" }", "unknown key `password`"),
        ("tls = \"/c.pem\"", "a table with certificate and key"),
        ("tls = [1]", "a table with certificate and key"),
    ] {
        fs::write(&file, format!("root = \"{root}\"\n{text}\n")).expect("a file");
        let output = flash(&["check", "--config", file.to_str().expect("UTF-8")]);
        assert!(output.status.code() == Some(2) && said(&output).contains(why), "{text}: {}", said(&output));
    }
}
