//! An authority for tests, and the names and records that it looks up: Pebble with its challenge server.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use flash_tests::{connect, go_tool, need, own_addresses, wait_for};
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
    management: SocketAddr,
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

/// The certificate of an authority's own server: an authority of the tests has issued it.
pub(crate) fn server_certificate(folder: &TempDir, host: &str) -> [PathBuf; 3] {
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
    let own = CertificateParams::new(vec![host.to_owned()]).expect("a name");
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
        let [address, management, http, tls, dns_server, dns_management] = own_addresses();
        let [_, certificate, key] = server_certificate(&folder, &address.ip().to_string());
        let mut config = json!({
            "listenAddress": address,
            "managementListenAddress": management,
            "certificate": certificate, "privateKey": key,
            "httpPort": http.port(), "tlsPort": tls.port(),
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
        dns.args(["-dnsserver", &dns_server.to_string()]);
        dns.args(["-management", &dns_management.to_string()]);
        let mut pebble = Command::new(go_tool("pebble"));
        pebble.arg("-config").arg(&file).args(["-dnsserver", &dns_server.to_string()]);
        pebble
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", "0")
            .envs(environment.iter().copied());
        pebble.stdout(log.try_clone().expect("a descriptor"));
        let programs = [dns, pebble].map(|mut program| {
            program.stdin(Stdio::null()).stderr(log.try_clone().expect("a descriptor"));
            program.spawn().expect("it starts")
        });
        for address in [address, management, dns_management] {
            wait_for("Pebble", || TcpStream::connect(address).is_ok());
        }
        Self {
            programs: programs.into(),
            folder,
            directory: format!("https://{address}/dir"),
            management,
            dns_management,
            http_port: http.port(),
            tls_port: tls.port(),
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
        let url = format!("https://{}/{path}", self.management);
        let mut curl = Command::new(need("curl", "curl"));
        let output =
            curl.args(["-sSf", "--cacert"]).arg(self.ca()).arg(url).args(words).output().expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Its intermediate certificate, and the key, as files in its folder.
    pub(crate) fn intermediate(&self) -> [PathBuf; 2] {
        [("intermediates/0", "intermediate.pem"), ("intermediate-keys/0", "intermediate-key.pem")].map(
            |(path, name)| {
                let file = self.folder.path().join(name);
                fs::write(&file, self.curl(path, &[])).expect("a file");
                file
            },
        )
    }

    /// What trusts it.
    pub(crate) fn roots(&self) -> RootCertStore {
        let root = self.curl("roots/0", &[]);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&root).expect("a certificate")).expect("a root");
        roots
    }
}
