//! An authority that takes any host for its client's, and does what a test wants of it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Clock;

pub(super) struct Authority {
    folder: TempDir,
    pub(super) directory: String,
    known: Arc<Mutex<Known>>,
}

/// What has happened, and what is to.
#[derive(Default)]
pub(super) struct Known {
    orders: Vec<Order>,
    /// The paths of all requests.
    pub(super) requests: Vec<String>,
    /// Orders for these hosts stay pending.
    pub(super) stuck: BTreeSet<String>,
    /// The requests at present, and how many there were at the same time at most.
    busy: usize,
    pub(super) busy_max: usize,
    /// How many orders were pending at the same time at most.
    pub(super) pending_max: usize,
    /// It refuses to issue so many certificates.
    pub(super) refusals: usize,
    /// It answers as if it had none.
    pub(super) forgets_accounts: bool,
    /// What is said of renewals: the window in seconds of 2030, when to ask again, and why.
    pub(super) window: Option<std::ops::Range<u64>>,
    pub(super) ask_again_s: Option<u64>,
    pub(super) explanation: Option<String>,
}

struct Order {
    identifiers: Value,
    profile: Value,
    certificate: Option<String>,
}

/// As long as those of Let's Encrypt's shortest profile.
pub(super) const LIFE_S: u64 = 160 * 3600;

impl Authority {
    pub(super) fn start(clock: &Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root_key = KeyPair::generate().unwrap();
        let mut root = CertificateParams::default();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own_key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), root.self_signed(&root_key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(root, root_key);
        let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let own = own.signed_by(&own_key, &issuer).unwrap().pem();
        let chain = vec![CertificateDer::from_pem_slice(own.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(own_key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let known = Arc::<Mutex<Known>>::default();
        let service =
            Arc::new(Service { base: base.clone(), issuer, clock: clock.clone(), known: known.clone() });
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, service) = (config.clone(), service.clone());
                let session = ServerConnection::new(config).unwrap();
                thread::spawn(move || service.serve(StreamOwned::new(session, socket)));
            }
        });
        Self { folder, directory: base + "/dir", known }
    }

    pub(super) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests have had this path.
    pub(super) fn requests(&self, path: &str) -> usize {
        self.known().requests.iter().filter(|of| of.starts_with(path)).count()
    }
}

struct Service {
    base: String,
    issuer: Issuer<'static, KeyPair>,
    clock: Clock,
    known: Arc<Mutex<Known>>,
}

struct Answer {
    status: u16,
    fields: String,
    body: String,
}

fn ok(body: impl ToString) -> Answer {
    Answer { status: 200, fields: String::new(), body: body.to_string() }
}

impl Service {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: StreamOwned<ServerConnection, TcpStream>) {
        self.known().begin_request();
        let request = read(&mut stream);
        let answer = request.map(|(path, payload)| self.answer(&path, &payload));
        // Before the client can begin another one.
        self.known().busy -= 1;
        let Some(Answer { status, fields, body }) = answer else { return };
        let text = format!(
            "HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\nReplay-Nonce: one\r\n{fields}\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(text.as_bytes());
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }

    fn answer(&self, path: &str, payload: &Value) -> Answer {
        let mut known = self.known();
        known.requests.push(path.into());
        let (kind, number) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let number: usize = number.parse().unwrap_or_default();
        let url = |kind: &str| format!("{}/{kind}", self.base);
        match kind {
            "dir" => ok(json!({
                "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("new-order"),
                "revokeCert": url("revoke"), "keyChange": url("key"), "renewalInfo": url("renewal"),
                "meta": { "profiles": { "shortlived": "six days" } },
            })),
            "nonce" => ok(""),
            "account" => {
                known.forgets_accounts = false;
                let fields = format!("Location: {}\r\n", url(&format!("account/{}", known.requests.len())));
                Answer { status: 201, fields, body: json!({ "status": "valid" }).to_string() }
            }
            "new-order" if known.forgets_accounts => {
                let body = json!({ "type": "urn:ietf:params:acme:error:accountDoesNotExist" }).to_string();
                Answer { status: 400, fields: String::new(), body }
            }
            "new-order" => {
                let [identifiers, profile] = ["identifiers", "profile"].map(|name| payload[name].clone());
                known.orders.push(Order { identifiers, profile, certificate: None });
                let pending = (0..known.orders.len()).filter(|order| known.is_pending(*order)).count();
                known.pending_max = known.pending_max.max(pending);
                let number = known.orders.len() - 1;
                let fields = format!("Location: {}\r\n", url(&format!("order/{number}")));
                let mut body = known.order(number, &self.base);
                body["replaces"] = payload["replaces"].clone();
                Answer { status: 201, fields, body: body.to_string() }
            }
            "order" => {
                let fields = "Retry-After: 1\r\n".into();
                Answer { fields, ..ok(known.order(number, &self.base)) }
            }
            "authorization" => {
                let identifier = known.orders[number].identifiers[0].clone();
                ok(json!({ "identifier": identifier, "status": "valid", "challenges": [] }))
            }
            "finalize" if known.refusals > 0 => {
                known.refusals -= 1;
                let body = json!({ "type": "urn:ietf:params:acme:error:serverInternal" }).to_string();
                Answer { status: 500, fields: String::new(), body }
            }
            "finalize" => {
                let request = BASE64_URL_SAFE_NO_PAD.decode(payload["csr"].as_str().unwrap()).unwrap();
                known.orders[number].certificate = Some(self.issue(request));
                ok(known.order(number, &self.base))
            }
            "certificate" => ok(known.orders[number].certificate.clone().unwrap()),
            "renewal" => self.advice(&known),
            _ => Answer { status: 404, fields: String::new(), body: json!({}).to_string() },
        }
    }

    fn issue(&self, request: Vec<u8>) -> String {
        let request = CertificateSigningRequestDer::from(request);
        let mut request = CertificateSigningRequestParams::from_der(&request).unwrap();
        let begins = std::time::Duration::from_secs((self.clock)());
        request.params.not_before = date_time_ymd(1970, 1, 1) + begins;
        request.params.not_after = request.params.not_before + std::time::Duration::from_secs(LIFE_S);
        request.params.use_authority_key_identifier_extension = true;
        request.signed_by(&self.issuer).unwrap().pem()
    }

    fn advice(&self, known: &Known) -> Answer {
        let Some(window) = &known.window else {
            return Answer { status: 404, fields: String::new(), body: json!({}).to_string() };
        };
        let date = |second: u64| {
            let [day, hour, minute, second] =
                [second / 86_400 + 1, second / 3600 % 24, second / 60 % 60, second % 60];
            format!("2030-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
        };
        let fields =
            known.ask_again_s.map_or_else(String::new, |again_s| format!("Retry-After: {again_s}\r\n"));
        let window = json!({ "start": date(window.start), "end": date(window.end) });
        let body = json!({ "suggestedWindow": window, "explanationURL": known.explanation });
        Answer { status: 200, fields, body: body.to_string() }
    }
}

impl Known {
    fn begin_request(&mut self) {
        self.busy += 1;
        self.busy_max = self.busy_max.max(self.busy);
    }

    pub(super) fn orders(&self) -> usize {
        self.orders.len()
    }

    /// What the last order has asked for.
    pub(super) fn last_profile(&self) -> Option<&str> {
        self.orders.last()?.profile.as_str()
    }

    fn is_pending(&self, number: usize) -> bool {
        self.stuck.contains(self.orders[number].identifiers[0]["value"].as_str().unwrap())
    }

    fn order(&self, number: usize, base: &str) -> Value {
        let Order { identifiers, certificate, .. } = &self.orders[number];
        let status = match certificate {
            Some(_) => "valid",
            None if self.is_pending(number) => "pending",
            None => "ready",
        };
        let url = |kind: &str| format!("{base}/{kind}/{number}");
        json!({
            "status": status, "identifiers": identifiers, "authorizations": [url("authorization")],
            "finalize": url("finalize"), "certificate": certificate.as_ref().map(|_| url("certificate")),
        })
    }
}

/// The path and the payload of a request.
fn read(stream: &mut impl Read) -> Option<(String, Value)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).ok()?;
    Some((head.split(' ').nth(1)?.into(), payload(&body)))
}

/// Of a signed request (RFC 7515 §7.2.2). `null` if there is none.
fn payload(body: &[u8]) -> Value {
    let signed: Value = serde_json::from_slice(body).unwrap_or_default();
    let payload = signed["payload"].as_str().unwrap_or_default();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap_or_default()).unwrap_or_default()
}
