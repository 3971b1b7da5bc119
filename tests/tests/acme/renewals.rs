//! Certificates that are renewed while the server runs.

use std::fs;
use std::time::SystemTime;

use flash_tests::{Server, family, wait_for};
use rustls::pki_types::CertificateDer;

use crate::pebble::Pebble;
use crate::{Site, get, stream};

#[test]
fn renewed_certificates_are_shown_at_once_and_no_connection_is_closed() {
    let pebble =
        Pebble::start_with(&[], |config| config["profiles"]["default"]["validityPeriod"] = 24.into());
    let mut site = Site::new("amped", 40);
    // Not at the next look at all files.
    site.settings = "tls-renewal = '1h'\n".into();
    let server = site.start(&pebble, &["short.example"]);
    let mut present = site.wait_for_certificate(&pebble, "short.example");
    let roots = pebble.roots();
    let mut kept = stream(site.tls_address(&pebble), &roots, "short.example");
    for _ in 0..3 {
        assert_eq!(get(&mut kept, "short.example", "/a.txt").expect("the connection is kept"), 200);
        let mut shown = present.clone();
        wait_for("a renewal", || {
            shown = site.trusted(&pebble, &roots, "short.example").expect("it is always trusted");
            shown != present
        });
        present = shown;
    }
    server.stop();
}

#[test]
fn the_process_is_replaced_and_the_authoritys_advice_is_followed() {
    let pebble = Pebble::start();
    let site = Site::new("amped", 41);
    let server = site.start(&pebble, &["advice.example"]);
    let first = site.wait_for_certificate(&pebble, "advice.example");
    let state = site.store().join("states/advice.example.json");
    let known = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(&state).unwrap_or_default()).unwrap_or_default()
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    wait_for("the authority's advice", || known()["advice_at"].as_u64() > Some(now));
    let process = || family::named(&server, "flash-acme");
    let killed = process().expect("the process runs");
    killed.kill();
    wait_for("another process", || process().is_some_and(|process| process != killed));
    assert!(site.trusted(&pebble, &pebble.roots(), "advice.example").is_some());
    // The authority has found something wrong with the certificate: it is to be renewed now.
    let pem = fs::read_to_string(site.store().join("certificates/advice.example.pem")).expect("the file");
    pebble.advise_now(&pem[pem.find("-----BEGIN CERTIFICATE").expect("a certificate")..]);
    // As if hours had passed.
    server.stop();
    let mut earlier = known();
    (earlier["advice_at"], earlier["retry_at"]) = (0.into(), 0.into());
    fs::write(&state, earlier.to_string()).expect("a file");
    let server = Server::start_configured(&site.config(), &[]);
    let differs_from = |known: &CertificateDer<'_>| {
        let shown = site.trusted(&pebble, &pebble.roots(), "advice.example");
        shown.filter(|shown| shown != known)
    };
    wait_for("a renewal", || differs_from(&first).is_some());
    let second = site.wait_for_certificate(&pebble, "advice.example");
    assert_eq!(site.flash(&["acme", "revoke", "advice.example"]).0, Some(0));
    assert!(pebble.log().contains("POST /revoke-cert"), "{}", pebble.log());
    wait_for("another one in the place of what was revoked", || differs_from(&second).is_some());
    server.stop();
}

#[test]
fn a_certificate_of_another_authority_is_replaced() {
    let (first, second) = (Pebble::start(), Pebble::start());
    let site = Site::new("sped", 42);
    let server = site.start(&first, &["moved.example"]);
    site.wait_for_certificate(&first, "moved.example");
    server.stop();
    // It trusts the servers of both.
    let both = [&first, &second].map(|pebble| fs::read_to_string(pebble.ca()).expect("its root")).concat();
    fs::write(second.ca(), both).expect("a file");
    let server = site.start(&second, &["moved.example"]);
    assert!(site.trusted(&second, &first.roots(), "moved.example").is_some(), "it is shown meanwhile");
    site.wait_for_certificate(&second, "moved.example");
    server.stop();
}
