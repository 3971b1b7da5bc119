//! A certificate of the tests' own, and a TLS client that trusts it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use flash_tests::{PATIENCE, Server, connect};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::WantsClientCert;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, HandshakeKind, RootCertStore, StreamOwned, crypto,
};
use tempfile::TempDir;

/// An authority, and certificates that it has issued.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("authority.pem"), certificate.pem()).expect("a file");
        let der = certificate.der().clone();
        Self { folder, issuer: Issuer::new(params, key), certificate: der }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a certificate for these names. Returns the paths of it and of its key.
    pub(crate) fn issue(&self, file: &str, names: &[&str]) -> (String, String) {
        self.issue_with(file, names, |_| {})
    }

    pub(crate) fn issue_with(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let (certificate_path, key_path) =
            (self.path(&format!("{file}.pem")), self.path(&format!("{file}-key.pem")));
        std::fs::write(&certificate_path, certificate.pem()).expect("a file");
        std::fs::write(&key_path, key.serialize_pem()).expect("a file");
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        (text(certificate_path), text(key_path))
    }

    /// What a client has that trusts the authority. It keeps its session tickets.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client_of(&[&rustls::version::TLS13, &rustls::version::TLS12])
    }

    pub(crate) fn client_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        self.client_with(versions, |builder| builder.with_no_client_auth())
    }

    pub(crate) fn client_with(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        finish: impl FnOnce(ConfigBuilder<ClientConfig, WantsClientCert>) -> ClientConfig,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a root");
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        Arc::new(finish(config.expect("versions").with_root_certificates(roots)))
    }
}

/// A server with a certificate for localhost, and what its clients trust.
pub(crate) struct Secured {
    pub(crate) authority: Authority,
    pub(crate) server: Server,
}

impl Secured {
    pub(crate) fn start(arch: &str, folder: &std::path::Path, flags: &[&str]) -> Self {
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost", &["localhost", "127.0.0.1"]);
        let flags = [&["--tls-certificate", &certificate, "--tls-key", &key], flags].concat();
        let server = Server::start(arch, folder, &flags);
        Self { authority, server }
    }

    pub(crate) fn connect(&self) -> Stream {
        stream(&self.server, &self.authority.client(), "localhost")
    }

    /// Connects, and asks for HTTP/2.
    pub(crate) fn connect_http2(&self) -> Stream {
        let mut config = ClientConfig::clone(&self.authority.client());
        config.alpn_protocols = vec![b"h2".to_vec()];
        stream(&self.server, &Arc::new(config), "localhost")
    }

    /// Sends bytes, and returns all that comes back until the server closes with a close_notify.
    pub(crate) fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).expect("the server takes the request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a close_notify comes before the end");
        bytes
    }
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Connects, and names the host.
pub(crate) fn stream(server: &Server, config: &Arc<ClientConfig>, name: &str) -> Stream {
    stream_at(server.address, config, name)
}

pub(crate) fn stream_at(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Stream {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let socket = connect(address);
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    StreamOwned::new(client, socket)
}

/// A whole connection: how its handshake was, and all that came back.
pub(crate) fn ask(
    server: &Server,
    config: &Arc<ClientConfig>,
    name: &str,
    request: &str,
) -> std::io::Result<(HandshakeKind, Vec<u8>)> {
    let mut stream = stream(server, config, name);
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok((stream.conn.handshake_kind().expect("a handshake"), bytes))
}
