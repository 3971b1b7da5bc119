//! What answers the handshakes of some sites: their certificates, and the rules that all handshakes have in common.

use std::io;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use flash_core::transport::CertificatesId;
use rustls::crypto;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;

use crate::certificates::{Certificate, CertificateFiles};
use crate::client_certificates::ClientAuthorities;
use crate::names;
use crate::tickets::{OwnTickets, Tickets};

/// The certificates of the sites that share them.
#[derive(Debug)]
pub struct Endpoint {
    id: CertificatesId,
    tickets: Arc<Tickets>,
    http2: bool,
    /// Whose certificates clients show, if they are asked for any.
    clients: ArcSwapOption<ClientAuthorities>,
    config: ArcSwap<ServerConfig>,
    /// Of the present certificates.
    certificates: ArcSwap<Vec<Certificate>>,
}

/// ALPN's names of protocols (RFC 7301 §6).
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";
/// In the order of preference.
const APPLICATION_PROTOCOLS: [&[u8]; 2] = [HTTP2, HTTP1];

impl Endpoint {
    /// `certificates` are for the same sites, for example with keys of different kinds. `http2` says whether clients may
    /// choose HTTP/2. If there are `clients`, a client is asked for a certificate.
    pub fn new(
        id: CertificatesId,
        certificates: Vec<Certificate>,
        clients: Option<ClientAuthorities>,
        tickets: Arc<Tickets>,
        http2: bool,
    ) -> Self {
        let config = ArcSwap::new(config(&certificates, clients.as_ref(), &tickets, http2));
        let clients = ArcSwapOption::new(clients.map(Arc::new));
        Self { id, tickets, http2, clients, config, certificates: ArcSwap::from_pointee(certificates) }
    }

    pub fn id(&self) -> CertificatesId {
        self.id
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    pub fn certificates(&self) -> Arc<Vec<Certificate>> {
        self.certificates.load_full()
    }

    /// Reads the files again if they have changed. Returns whether they had. Connections keep the certificates of their
    /// handshakes.
    ///
    /// # Errors
    /// If a file cannot be used. The certificates then stay as they are.
    pub fn reload(&self) -> Result<bool, String> {
        let (old, clients) = (self.certificates.load(), self.clients.load_full());
        let clients_have_changed = clients.as_ref().is_some_and(|clients| clients.has_changed());
        if !clients_have_changed && !old.iter().any(Certificate::has_changed) {
            return Ok(false);
        }
        let read = |certificate: &Certificate| Certificate::read(certificate.files());
        let certificates = old.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let clients = clients.map(|clients| clients.again()).transpose()?;
        self.config.store(config(&certificates, clients.as_ref(), &self.tickets, self.http2));
        self.clients.store(clients.map(Arc::new));
        self.certificates.store(Arc::new(certificates));
        Ok(true)
    }
}

/// The files of an endpoint, read and checked.
pub fn read(files: &[CertificateFiles]) -> Result<Vec<Certificate>, String> {
    files.iter().map(Certificate::read).collect()
}

/// Makes ready what cryptography needs of the system, before the server gives its rights up.
pub fn prepare() -> io::Result<()> {
    aws_lc_rs::rand::fill(&mut [0; 32]).map_err(|_| io::Error::other("the system has no random numbers"))
}

fn config(
    certificates: &[Certificate],
    clients: Option<&ClientAuthorities>,
    tickets: &Arc<Tickets>,
    http2: bool,
) -> Arc<ServerConfig> {
    let keys =
        certificates.iter().map(|certificate| (certificate.names().to_vec(), certificate.key())).collect();
    let builder = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3");
    let mut config = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
        None => builder.with_no_client_auth(),
    }
    .with_cert_resolver(Arc::new(Resolver(keys)));
    let offered = APPLICATION_PROTOCOLS.iter().filter(|name| http2 || **name != HTTP2);
    config.alpn_protocols = offered.map(|name| name.to_vec()).collect();
    // A ticket carries the client's identity, so it is for those alone who would have verified the same.
    let of_whom = clients.map_or_else(Vec::new, |clients| clients.digest().to_vec());
    config.ticketer = Arc::new(OwnTickets::new(Arc::clone(tickets), of_whom));
    // Sessions are in tickets alone, which every process can read.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Arc::new(config)
}

/// Chooses among the certificates of an endpoint.
#[derive(Debug)]
struct Resolver(Vec<(Vec<String>, Arc<CertifiedKey>)>);

impl ResolvesServerCert for Resolver {
    /// The first certificate for the name whose key the client can use; else the first whose key it can use.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let is_usable = |key: &CertifiedKey| key.key.choose_scheme(schemes).is_some();
        let name = hello.server_name();
        let covers = |names: &[String]| {
            name.is_some_and(|name| names.iter().any(|pattern| names::covers(pattern, name)))
        };
        let usable = || self.0.iter().filter(|(_, key)| is_usable(key));
        let found = usable().find(|(names, _)| covers(names)).or_else(|| usable().next());
        found.map(|(_, key)| Arc::clone(key))
    }
}
