//! An authority for tests, and the names and records that it looks up: Pebble with its challenge server.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use flash_tests::{connect, go_tool, need, wait_for};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Pebble {
    programs: Vec<Child>,
    pub(crate) folder: TempDir,
    pub(crate) directory: String,
    management_port: u16,
    dns_management: SocketAddr,
    /// Where it asks servers.
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Ports that are free on all addresses of this machine. All are taken before one is given back, so that no two are the same.
fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners = [(); COUNT].map(|()| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port"));
    listeners.each_ref().map(|listener| listener.local_addr().expect("its address").port())
}

/// The certificate of an authority's own server: an authority of the tests has issued it.
pub(crate) fn server_certificate(folder: &TempDir) -> [PathBuf; 3] {
    let [root, certificate, key] =
        ["ca.pem", "server.pem", "server-key.pem"].map(|name| folder.path().join(name));
    let root_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    let name = format!("Authority of {}", folder.path().display());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(&root, params.self_signed(&root_key).expect("a certificate").pem()).expect("a file");
    let issuer = Issuer::new(params, root_key);
    let own_key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    fs::write(&certificate, own.signed_by(&own_key, &issuer).expect("a certificate").pem()).expect("a file");
    fs::write(&key, own_key.serialize_pem()).expect("a file");
    [root, certificate, key]
}

impl Pebble {
    pub(crate) fn start() -> Self {
        Self::start_with(&[], |_| {})
    }

    /// `environment` says how it fails, and `change` changes its configuration.
    pub(crate) fn start_with(environment: &[(&str, &str)], change: impl FnOnce(&mut Value)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [_, certificate, key] = server_certificate(&folder);
        let [port, management_port, http_port, tls_port, dns_port, dns_management] = free_ports();
        let mut config = json!({
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management_port}"),
            "certificate": certificate, "privateKey": key,
            "httpPort": http_port, "tlsPort": tls_port,
            "ocspResponderURL": "", "externalAccountBindingRequired": false,
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "usual", "validityPeriod": 7_776_000 } },
        });
        change(&mut config);
        let file = folder.path().join("pebble.json");
        fs::write(&file, json!({ "pebble": config }).to_string()).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let mut dns = Command::new(go_tool("pebble-challtestsrv"));
        dns.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        dns.args(["-dnsserver", &format!("127.0.0.1:{dns_port}")]);
        dns.args(["-management", &format!("127.0.0.1:{dns_management}")]);
        let mut pebble = Command::new(go_tool("pebble"));
        pebble.arg("-config").arg(&file).args(["-dnsserver", &format!("127.0.0.1:{dns_port}")]);
        pebble
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            .envs(environment.iter().copied());
        pebble.stdout(log.try_clone().expect("a descriptor"));
        let programs = [dns, pebble].map(|mut program| {
            program.stdin(Stdio::null()).stderr(log.try_clone().expect("a descriptor"));
            program.spawn().expect("it starts")
        });
        let dns_management = SocketAddr::from((Ipv4Addr::LOCALHOST, dns_management));
        for port in [port, management_port, dns_management.port()] {
            wait_for("Pebble", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        }
        Self {
            programs: programs.into(),
            folder,
            directory: format!("https://localhost:{port}/dir"),
            management_port,
            dns_management,
            http_port,
            tls_port,
        }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// All that it has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("its log")
    }

    /// How many orders it has got.
    pub(crate) fn orders(&self) -> usize {
        self.log().lines().filter(|line| line.contains("POST /order-plz")).count()
    }

    /// The challenge server is told something, such as where a host is.
    pub(crate) fn tell(&self, path: &str, what: &Value) {
        let mut stream = connect(self.dns_management);
        let body = what.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("it takes it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    pub(crate) fn put(&self, host: &str, address: Ipv4Addr) {
        self.tell("/add-a", &json!({ "host": host, "addresses": [address] }));
    }

    /// A shell's line that sets and removes records of DNS, as hooks of lego do.
    pub(crate) fn dns_hook(&self) -> String {
        let management = self.dns_management;
        format!(
            "#!/bin/sh\ncase $1 in\npresent) at=set-txt;;\ncleanup) at=clear-txt;;\nesac\n\
             exec curl -sSf -d \"{{\\\"host\\\":\\\"$2\\\",\\\"value\\\":\\\"$3\\\"}}\" http://{management}/$at\n"
        )
    }

    /// Says of a certificate that it is to be renewed now.
    pub(crate) fn advise_now(&self, pem: &str) {
        let window =
            json!({ "suggestedWindow": { "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" } });
        let what = json!({ "certificate": pem, "ariResponse": window.to_string() });
        self.curl("set-renewal-info/", &["-d", &what.to_string()]);
    }

    fn curl(&self, path: &str, words: &[&str]) -> Vec<u8> {
        let url = format!("https://localhost:{}/{path}", self.management_port);
        let mut curl = Command::new(need("curl", "curl"));
        let output =
            curl.args(["-sSf", "--cacert"]).arg(self.ca()).arg(url).args(words).output().expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What trusts it.
    pub(crate) fn roots(&self) -> RootCertStore {
        let root = self.curl("roots/0", &[]);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&root).expect("a certificate")).expect("a root");
        roots
    }
}
