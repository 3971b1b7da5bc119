//! What others have written to find weak points: h2spec through TLS, testssl.sh and sslscan.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use flash_tests::{Server, each, h2spec, need, site};
use rcgen::CrlDistributionPoint;
use serde_json::Value;

use crate::client::{Authority, Secured};
use crate::real_clients::run;

/// RFC 9113 and RFC 7541. With ALPN even a bad preface is a fault of HTTP/2.
#[test]
fn h2spec_finds_no_fault() {
    let folder = site::make();
    let h2spec = h2spec();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &["--processes", "4"]);
        let address = secured.server.address;
        let mut command = Command::new(&h2spec);
        command.args(["-t", "-k", "-o", "10", "-h", &address.ip().to_string(), "-p"]);
        let output = run(command.arg(address.port().to_string()), b"");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(" 0 failed"), "{arch}: {said}");
        secured.server.stop();
    });
}

/// Findings that say nothing against the server.
const EXCEPTIONS: [&str; 1] = [
    // The client's order of suites holds. All are strong, and a client without AES in hardware knows that it is slow there.
    "cipher_order",
];

/// All that testssl.sh knows but what takes long: suites one by one, simulated clients, and bugs of implementations.
#[test]
fn testssl_finds_nothing_above_low() {
    let testssl = need("testssl", "testssl.sh");
    let (folder, authority) = (site::make(), Authority::new());
    // As a public authority would write it.
    let (certificate, key) = authority.issue_with("public", &["localhost"], |params| {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        (params.not_before, params.not_after) = ((now - DAY).into(), (now + 80 * DAY).into());
        params.crl_distribution_points =
            vec![CrlDistributionPoint { uris: vec!["http://localhost/revoked.crl".into()] }];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    let flags =
        ["--tls-certificate", &certificate, "--tls-key", &key, "--https", "required", "--hsts", "8760h"];
    let policy = ["--header", "Content-Security-Policy: default-src 'self'"];
    let server = Server::start("amped", folder.path(), &[&flags[..], &policy].concat());
    let found = authority.path("found.json");
    let mut command = Command::new(testssl);
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1"]);
    command.args(["-p", "-s", "-S", "-P", "-f", "-U", "-h", "--add-ca"]).arg(authority.path("authority.pem"));
    command.arg("--jsonfile").arg(&found).env("TERM", "dumb");
    let output = run(command.arg(format!("https://localhost:{}", server.address.port())), b"");
    let text = fs::read(&found).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let findings: Vec<Value> = serde_json::from_slice(&text).expect("a list");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let bad: Vec<&Value> = findings
        .iter()
        .filter(|finding| ["MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains(&&*text(finding, "severity")))
        .filter(|finding| !EXCEPTIONS.contains(&&*text(finding, "id")))
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    // It has reached the server.
    for (id, severity) in [
        ("TLS1_3", "OK"),
        ("TLS1_2", "OK"),
        ("TLS1", "INFO"),
        ("ROBOT", "OK"),
        ("secure_renego", "OK"),
        ("HSTS_time", "OK"),
    ] {
        let said =
            findings.iter().find(|finding| text(finding, "id") == id).map(|found| text(found, "severity"));
        assert_eq!(said.as_deref(), Some(severity), "{id}");
    }
    server.stop();
}

/// Two versions, strong suites, no compression, no renegotiation.
#[test]
fn sslscan_finds_only_what_is_strong() {
    let sslscan = need("sslscan", "sslscan");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &["--processes", "4"]);
        let mut command = Command::new(&sslscan);
        command.args(["--no-colour", "--sni-name=localhost", "--xml=-"]);
        let output = run(command.arg(secured.server.address.to_string()), b"");
        let said = String::from_utf8_lossy(&output.stdout);
        let lines = |start: &str| {
            said.lines().map(str::trim).filter(|line| line.starts_with(start)).collect::<Vec<_>>()
        };
        let offered: Vec<&str> =
            lines("<protocol").into_iter().filter(|line| line.contains("enabled=\"1\"")).collect();
        assert!(
            matches!(offered[..], [one, other] if one.contains("\"1.2\"") && other.contains("\"1.3\"")),
            "{arch}: {said}"
        );
        let ciphers = lines("<cipher");
        assert_eq!(ciphers.len(), 6, "{arch}: {said}");
        for cipher in ciphers {
            // It calls the suites of TLS 1.3 acceptable.
            let is_good = cipher.contains("strength=\"strong\"") || cipher.contains("TLSv1.3");
            assert!(is_good && cipher.contains("curve=\"25519\""), "{arch}: {cipher}");
        }
        assert_eq!(lines("<renegotiation"), ["<renegotiation supported=\"0\" secure=\"0\" />"], "{arch}");
        let hearts = lines("<heartbleed");
        assert!(
            hearts.len() == 2 && hearts.iter().all(|line| line.contains("vulnerable=\"0\"")),
            "{arch}: {said}"
        );
        secured.server.stop();
    });
}
