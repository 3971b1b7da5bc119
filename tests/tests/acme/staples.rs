//! Answers of OCSP that are stapled to certificates, with openssl as the authority's responder.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use flash_tests::{Server, need, own_addresses, wait_for};
use serde_json::Value;

use crate::Site;
use crate::pebble::Pebble;

/// Answers about certificates for an authority, until the tests end.
struct Responder {
    url: String,
    says: Arc<Mutex<Option<Says>>>,
}

/// What it answers with; 503 without it.
#[derive(Clone)]
struct Says {
    /// The statuses of certificates, a line for each, as `openssl ca` keeps them.
    index: PathBuf,
    /// The authority's certificate and its key.
    authority: [PathBuf; 2],
}

/// Answers are true for so many minutes.
const MINUTES: &str = "1";

impl Responder {
    fn start() -> Self {
        let [address] = own_addresses();
        let listener = TcpListener::bind(address).expect("its address is free");
        let says: Arc<Mutex<Option<Says>>> = Arc::default();
        let known = Arc::clone(&says);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let says = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A client that goes away is none of its business.
                let _ = answer(stream, says);
            }
        });
        Self { url: format!("http://{address}/"), says }
    }

    fn say(&self, pebble: &Pebble, statuses: Option<&str>) {
        let index = pebble.folder.path().join("index");
        fs::write(&index, statuses.unwrap_or_default()).expect("a file");
        let says = statuses.map(|_| Says { index, authority: pebble.intermediate() });
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = says;
    }
}

fn answer(mut stream: TcpStream, says: Option<Says>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut request = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut request)?;
    let Some(Says { index, authority: [certificate, key] }) = says else {
        return stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let [asked, answered] = ["request", "answer"].map(|name| index.with_extension(name));
    fs::write(&asked, request)?;
    let mut openssl = Command::new(need("openssl", "openssl"));
    openssl
        .arg("ocsp")
        .arg("-index")
        .arg(index)
        .arg("-CA")
        .arg(&certificate)
        .arg("-rsigner")
        .arg(certificate);
    openssl
        .arg("-rkey")
        .arg(key)
        .args(["-nmin", MINUTES])
        .arg("-reqin")
        .arg(asked)
        .arg("-respout")
        .arg(&answered);
    let output = openssl.stdin(Stdio::null()).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let body = fs::read(answered)?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat())
}

/// The line of a certificate that is good, as `openssl ca` writes it.
fn good(site: &Site, host: &str) -> String {
    let openssl = |words: &[&str]| {
        let file = site.store().join(format!("certificates/{host}.pem"));
        let output = Command::new("openssl").args(["x509", "-noout", "-in"]).arg(file).args(words).output();
        let text = String::from_utf8(output.expect("openssl runs").stdout).expect("text");
        text.trim().split_once('=').expect("a value").1.to_owned()
    };
    format!("V\t401231235959Z\t\t{}\tunknown\t/CN={host}\n", openssl(&["-serial"]))
}

/// What `openssl s_client` says of the answer that it is shown.
fn shown(site: &Site, pebble: &Pebble, host: &str) -> String {
    let address = site.tls_address(pebble).to_string();
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address, "-servername", host, "-status"]);
    client.stdin(Stdio::null()).stderr(Stdio::null());
    String::from_utf8_lossy(&client.output().expect("openssl runs").stdout).into_owned()
}

#[test]
fn an_authoritys_answer_is_stapled_and_renewed_at_its_half() {
    let responder = Responder::start();
    let pebble = Pebble::start_with(&[], |config| config["ocspResponderURL"] = responder.url.as_str().into());
    let site = Site::new("amped", 60);
    let host = "stapled.example";
    let server = site.start(&pebble, &[host]);
    site.wait_for_certificate(&pebble, host);
    let failed = format!("{host}: no answer of OCSP to staple: cannot ask {}: it answers 503", responder.url);
    wait_for(&failed, || server.said().contains(&failed));
    let failed = "; OCSP failed 1 times, is asked for again in ";
    wait_for("the status", || site.flash(&["acme", "status"]).1.contains(failed));
    assert!(shown(&site, &pebble, host).contains("OCSP response: no response sent"));
    server.stop();
    // As if a day had passed.
    let ask_now = || {
        let file = site.store().join("states/stapled.example.json");
        let mut known: Value = serde_json::from_slice(&fs::read(&file).expect("the state")).expect("JSON");
        (known["staple"]["ask_at"], known["staple"]["logged_at"]) = (0.into(), 0.into());
        fs::write(file, known.to_string()).expect("a file");
    };
    responder.say(&pebble, Some(""));
    ask_now();
    let server = Server::start_configured(&site.config(), &[]);
    wait_for("its answer", || server.said().contains("the authority does not know the certificate"));
    server.stop();
    responder.say(&pebble, Some(&good(&site, host)));
    ask_now();
    let server = Server::start_configured(&site.config(), &["--processes", "2", "--processes-max", "2"]);
    let since = || {
        let said = shown(&site, &pebble, host);
        let since = said.lines().find_map(|line| line.trim().strip_prefix("This Update: "))?.to_owned();
        said.contains("Cert Status: good").then_some(since)
    };
    wait_for("an answer", || since().is_some());
    let first = since();
    wait_for("another one", || since() != first);
    assert!(since().is_some(), "there is always one");
    assert!(!server.said().contains("the certificate was replaced"), "{}", server.said());
    // Without a responder, the last one is stapled as long as it is true.
    responder.say(&pebble, None);
    wait_for("none", || since().is_none());
    server.stop();
}

#[test]
fn an_answer_beside_a_certificates_file_is_stapled() {
    let responder = Responder::start();
    let pebble = Pebble::start();
    let site = Site::new("uring", 61);
    let host = "file.example";
    let server = site.start(&pebble, &[host]);
    site.wait_for_certificate(&pebble, host);
    server.stop();
    let own = site.path("own.pem");
    fs::copy(site.store().join("certificates/file.example.pem"), &own).expect("a file");
    let own = own.display();
    let root = site.path("www");
    let tls = format!("tls = {{ certificate = '{own}', key = '{own}' }}");
    site.write(&pebble, &format!("[site.'{host}']\nroot = '{}'\n{tls}\n", root.display()));
    let staple = site.path("own.pem.ocsp");
    fs::write(&staple, "no answer").expect("a file");
    let (_, said) = site.flash(&["check"]);
    assert!(
        said.contains("own.pem.ocsp: no answer of OCSP") && said.contains("; it is not stapled"),
        "{said}"
    );
    responder.say(&pebble, Some(&good(&site, host)));
    let [issuer, _] = pebble.intermediate();
    let mut openssl = Command::new("openssl");
    openssl.args(["ocsp", "-noverify", "-no_nonce", "-url", &responder.url]).arg("-respout").arg(&staple);
    let asked = openssl.arg("-issuer").arg(issuer).args(["-cert", &own.to_string()]).output();
    let asked = asked.expect("openssl runs");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let (_, said) = site.flash(&["check"]);
    assert!(!said.contains("ocsp"), "{said}");
    let server = Server::start_configured(&site.config(), &[]);
    assert!(shown(&site, &pebble, host).contains("Cert Status: good"));
    server.stop();
}
