//! Certificates of an authority, from the first start to renewals, with Pebble as the authority.

#![forbid(unsafe_code)]

mod failures;
mod issuing;
mod pebble;
mod renewals;
mod shared_folders;
mod staples;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flash_tests::{PATIENCE, Server, arch_settings, connect, program, wait_for};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};
use tempfile::TempDir;

use pebble::Pebble;

type Stream = StreamOwned<ClientConnection, std::net::TcpStream>;

/// A server at an address of its own, and its configuration.
struct Site {
    folder: TempDir,
    address: Ipv4Addr,
    arch: &'static str,
    /// What stands in its file besides the usual.
    settings: String,
}

impl Site {
    fn new(arch: &'static str, number: u8) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("www")).expect("a folder");
        fs::write(folder.path().join("www/a.txt"), "0123456789").expect("a file");
        Self { folder, address: Ipv4Addr::new(127, 0, 3, number), arch, settings: String::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("acme")
    }

    fn config(&self) -> PathBuf {
        self.path("flash.toml")
    }

    /// Writes the configuration file of a server that asks this authority. `sites` are its tables.
    fn write(&self, pebble: &Pebble, sites: &str) {
        let text = format!(
            "{arch}{settings}listen = ['http://{at}:{http}', 'https://{at}:{tls}']\nadmin = 'unix:{admin}'\n\
             acme-directory = '{directory}'\nacme-ca = '{ca}'\n{sites}",
            arch = arch_settings(self.arch),
            settings = self.settings,
            at = self.address,
            http = pebble.http_port,
            tls = pebble.tls_port,
            admin = self.path("admin.sock").display(),
            directory = pebble.directory,
            ca = pebble.ca().display(),
        );
        let text = match text.contains("acme-folder") {
            true => text,
            false => format!("acme-folder = '{}'\n{text}", self.store().display()),
        };
        fs::write(self.config(), text).expect("a file");
    }

    /// Leaves the listener without TLS out of the file.
    fn listen_with_tls_alone(&self, pebble: &Pebble) {
        let text = fs::read_to_string(self.config()).expect("the file");
        let plain = format!("'http://{}:{}', ", self.address, pebble.http_port);
        fs::write(self.config(), text.replace(&plain, "")).expect("a file");
    }

    /// The table of a site with a certificate of the authority.
    fn table(&self, hosts: &[&str]) -> String {
        let (host, names) = hosts.split_first().expect("a host");
        let root = self.path("www");
        format!(
            "[site.'{host}']\nnames = {names:?}\nroot = '{}'\ntls = 'acme'\nhttps = 'required'\n",
            root.display()
        )
    }

    /// Starts a server with this one site, whose hosts lead to it.
    fn start(&self, pebble: &Pebble, hosts: &[&str]) -> Server {
        hosts.iter().filter(|host| !host.starts_with('*')).for_each(|host| pebble.put(host, self.address));
        self.write(pebble, &self.table(hosts));
        Server::start_configured(&self.config(), &["--processes", "2", "--processes-max", "2"])
    }

    fn tls_address(&self, pebble: &Pebble) -> SocketAddr {
        SocketAddr::from((self.address, pebble.tls_port))
    }

    /// The certificate that a client is shown, if it trusts it.
    fn trusted(&self, pebble: &Pebble, roots: &RootCertStore, host: &str) -> Option<CertificateDer<'static>> {
        let mut stream = stream(self.tls_address(pebble), roots, host);
        get(&mut stream, host, "/a.txt").ok()?;
        stream.conn.peer_certificates().map(|chain| chain[0].clone().into_owned())
    }

    /// Waits for a certificate of the authority.
    fn wait_for_certificate(&self, pebble: &Pebble, host: &str) -> CertificateDer<'static> {
        let roots = pebble.roots();
        let mut found = None;
        wait_for(&format!("{}: a certificate for {host}", self.arch), || {
            found = self.trusted(pebble, &roots, host);
            found.is_some()
        });
        found.expect("it is there")
    }

    /// Runs `flash` for this server. Returns its exit code, and what it prints.
    fn flash(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(program()).args(words).arg("--config").arg(self.config()).output();
        let output = output.expect("flash runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Connects as a client that trusts these roots.
fn stream(address: SocketAddr, roots: &RootCertStore, host: &str) -> Stream {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots.clone()).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let socket = connect(address);
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).expect("a client"), socket)
}

/// Requests a path, and keeps the connection. Returns the status.
fn get(stream: &mut (impl Read + Write), host: &str, path: &str) -> std::io::Result<u16> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or_default()])?;
    Ok(head[9..12].parse().expect("a status"))
}

/// What Pebble's challenges and this server's files are about, in the order of their names.
fn files_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.sort();
    names
}
