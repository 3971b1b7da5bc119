//! What goes wrong with an authority: how often it is asked again, and where its words can be read.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread;

use flash_tests::{Server, admin, family, wait_for};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};
use serde_json::Value;

use crate::pebble::{Pebble, server_certificate};
use crate::{Site, files_in};

#[test]
fn forgotten_nonces_and_slow_looks_delay_a_certificate_and_no_more() {
    let slow = [("PEBBLE_WFE_NONCEREJECT", "25"), ("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "5")];
    let pebble = Pebble::start_with(&slow, |_| {});
    let site = Site::new("mt", 30);
    let server = site.start(&pebble, &["slow.example", "also.example"]);
    site.wait_for_certificate(&pebble, "also.example");
    let said = server.stop();
    assert!(!said.contains("no certificate was issued"), "{said}\n{}", pebble.log());
}

#[test]
fn a_refused_challenge_is_told_in_the_authoritys_words_and_not_asked_again_at_each_restart() {
    let pebble = Pebble::start();
    let site = Site::new("amped", 31);
    let server = site.start(&pebble, &["refused.example"]);
    // The host leads elsewhere before the authority looks, and nobody is there.
    pebble.tell("/clear-a", &serde_json::json!({ "host": "refused.example" }));
    pebble.put("refused.example", Ipv4Addr::new(127, 0, 3, 250));
    let why = "refused.example: no certificate was issued: refused.example: ";
    wait_for("a line of the error log", || server.said().contains(why));
    let said = server.said();
    let line = said.lines().find(|line| line.contains(why)).expect("the line");
    assert!(line.contains("(connection)") && line.contains("127.0.3.250"), "{line}");
    let status = || -> Value {
        let (code, body) = admin::ask(&site.path("admin.sock"), "GET", "/status.json");
        assert_eq!(code, 200);
        serde_json::from_str(&body).expect("JSON")
    };
    wait_for("the status", || status()["renewal_failures"][0]["host"] == "refused.example");
    let (_, said) = site.flash(&["status"]);
    assert!(said.contains("Not renewed") && said.contains("(connection)"), "{said}");
    let (_, metrics) = admin::ask(&site.path("admin.sock"), "GET", "/metrics");
    assert!(metrics.contains("\nflash_certificate_renewals_failing 1\n"), "{metrics}");
    let (code, said) = site.flash(&["acme", "status"]);
    assert!(
        code == Some(1) && said.contains("no certificate, failed 1 times, is asked for again in"),
        "{said}"
    );
    server.stop();

    let orders = pebble.orders();
    for _ in 0..3 {
        let server = Server::start_configured(&site.config(), &[]);
        wait_for("the lease", || site.store().join("lease").exists());
        // The failure is known before anything is asked.
        wait_for("the failure", || site.flash(&["status"]).1.contains("Not renewed"));
        server.stop();
    }
    assert_eq!(pebble.orders(), orders, "a restart asks for nothing");

    let server = Server::start_configured(&site.config(), &[]);
    pebble.tell("/clear-a", &serde_json::json!({ "host": "refused.example" }));
    pebble.put("refused.example", site.address);
    let (code, said) = site.flash(&["acme", "renew", "other.example"]);
    assert!(code == Some(1) && said.contains("other.example is not the first host"), "{said}");
    assert_eq!(site.flash(&["acme", "renew", "refused.example"]).0, Some(0));
    site.wait_for_certificate(&pebble, "refused.example");
    wait_for("no failure", || status()["renewal_failures"].as_array().is_some_and(Vec::is_empty));
    server.stop();
}

#[test]
fn a_host_that_the_authority_never_takes_and_one_that_it_does() {
    let pebble = Pebble::start_with(&[], |config| config["domainBlocklist"] = vec!["blocked.example"].into());
    let site = Site::new("pipelined", 32);
    ["blocked.example", "fine.example"].iter().for_each(|host| pebble.put(host, site.address));
    site.write(&pebble, &(site.table(&["blocked.example"]) + &site.table(&["fine.example"])));
    let server = Server::start_configured(&site.config(), &[]);
    site.wait_for_certificate(&pebble, "fine.example");
    wait_for("a line", || server.said().contains("blocked.example: no certificate was issued: "));
    assert!(server.said().contains("(rejectedIdentifier)"), "{}", server.said());
    server.stop();
}

#[test]
fn a_process_that_is_killed_before_it_has_the_certificate_leaves_it_to_the_next_one() {
    // It was issued long before Flash looks again.
    let pebble = Pebble::start_with(&[], |config| config["retryAfter"]["order"] = 30.into());
    let site = Site::new("amped", 34);
    let server = site.start(&pebble, &["killed.example"]);
    wait_for("a certificate", || pebble.log().contains("Issued certificate serial"));
    let orders = site.store().join("orders");
    assert_eq!(files_in(&orders), ["killed.example.json"]);
    let mode = fs::metadata(orders.join("killed.example.json")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!site.store().join("certificates/killed.example.pem").exists());
    let process = || family::named(&server, "flash-acme");
    let killed = process().expect("the process runs");
    killed.kill();
    wait_for("another process", || process().is_some_and(|process| process != killed));
    // Not to wait for the minute that any order waits.
    assert_eq!(site.flash(&["acme", "renew", "killed.example"]).0, Some(0));
    site.wait_for_certificate(&pebble, "killed.example");
    assert_eq!(pebble.orders(), 1, "{}", pebble.log());
    wait_for("the order to be over", || files_in(&orders).is_empty());
    server.stop();
}

/// An authority with too many clients: each gets 429.
fn limited_authority(folder: &tempfile::TempDir) -> u16 {
    let [_, certificate, key] = server_certificate(folder, "localhost");
    let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(chain, key).expect("a configuration"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    let url = move |name: &str| format!("https://localhost:{port}/{name}");
    let directory = serde_json::json!({
        "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
        "revokeCert": url("revoke"), "keyChange": url("key"),
    });
    let problem = serde_json::json!({
        "type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates already issued",
    });
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = StreamOwned::new(tls, socket);
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head);
            let (status, fields, body) = match head.split(' ').nth(1) {
                Some("/dir") => ("200 OK", "", directory.to_string()),
                Some("/nonce") => ("200 OK", "Replay-Nonce: one\r\n", String::new()),
                _ => (
                    "429 Too Many Requests",
                    "Replay-Nonce: two\r\nRetry-After: 7200\r\n",
                    problem.to_string(),
                ),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    port
}

#[test]
fn an_authority_that_asks_to_wait_is_waited_for() {
    let pebble = Pebble::start();
    let site = Site::new("sped", 33);
    let folder = tempfile::tempdir().expect("a folder");
    let port = limited_authority(&folder);
    pebble.put("limited.example", site.address);
    site.write(&pebble, &site.table(&["limited.example"]));
    let text = fs::read_to_string(site.config()).expect("the file");
    let text = text.replace(&pebble.directory, &format!("https://localhost:{port}/dir"));
    let text = text
        .replace(pebble.ca().to_str().expect("UTF-8"), folder.path().join("ca.pem").to_str().expect("UTF-8"));
    fs::write(site.config(), text).expect("a file");
    let server = Server::start_configured(&site.config(), &[]);
    let why = "limited.example: no certificate was issued: too many certificates already issued (rateLimited); the next try is in 120 minutes";
    wait_for("a line", || server.said().contains(why));
    server.stop();
}
