//! How clients speak TLS: which certificates they accept, what they offer, and whether they bring sessions back. The bytes of a
//! connection are [`stream`]'s affair.

mod stream;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::Error;
use stream::HTTP2;
pub(crate) use stream::TlsStream;

/// How clients speak TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    name: ServerName<'static>,
    /// Without any, every certificate is accepted.
    roots: Option<Arc<RootCertStore>>,
    resume: bool,
    provider: Arc<CryptoProvider>,
}

/// ALPN's name of HTTP/1.1 (RFC 7301 §6).
const HTTP1: &[u8] = b"http/1.1";
/// Tickets that a client keeps: a server sends a few at once.
const TICKETS_MAX: usize = 8;

impl Tls {
    /// For a server of this name, which may be an address. Any certificate is accepted.
    pub fn new(host: &str) -> Result<Tls, Error> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone());
        let name =
            name.map_err(|_| Error::Usage(format!("TLS needs a host's name, and '{host}' is none")))?;
        Ok(Tls { name, roots: None, resume: false, provider: Arc::new(aws_lc_rs::default_provider()) })
    }

    /// Accepts only certificates that these authorities have signed, for the server's name.
    pub fn with_authorities(mut self, path: &Path) -> Result<Tls, Error> {
        let unusable =
            |why: &dyn std::fmt::Display| Error::Run(format!("cannot use {}: {why}", path.display()));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))? {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"it has no certificate in PEM"));
        }
        self.roots = Some(Arc::new(roots));
        Ok(self)
    }

    /// Each client brings its last session back when it connects again.
    pub fn with_resumption(self, resume: bool) -> Tls {
        Tls { resume, ..self }
    }

    /// Offers these groups for the key exchange alone, in this order, by their registered names.
    pub fn with_groups(mut self, names: &[String]) -> Result<Tls, Error> {
        let known = aws_lc_rs::ALL_KX_GROUPS;
        let name_of = |group: &dyn rustls::crypto::SupportedKxGroup| format!("{:?}", group.name());
        let find = |name: &String| {
            known.iter().copied().find(|group| name_of(*group).eq_ignore_ascii_case(name)).ok_or_else(|| {
                let known: Vec<String> = known.iter().map(|group| name_of(*group)).collect();
                Error::Usage(format!("'{name}' is no group here; write one of {}", known.join(", ")))
            })
        };
        let groups = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        self.provider = Arc::new(CryptoProvider { kx_groups: groups, ..(*self.provider).clone() });
        Ok(self)
    }

    fn config(&self, http2: bool) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider has the suites of TLS 1.2 and 1.3");
        let mut config = match &self.roots {
            Some(roots) => builder.with_root_certificates(roots.clone()).with_no_client_auth(),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(self.provider.clone())))
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![if http2 { HTTP2 } else { HTTP1 }.to_vec()];
        config.resumption = Resumption::disabled();
        config
    }
}

/// Makes the sessions of a thread's connections.
pub(crate) struct Connector {
    tls: Tls,
    config: Arc<ClientConfig>,
    /// Each client has tickets of its own, as browsers do.
    of_clients: HashMap<usize, Arc<ClientConfig>>,
}

impl Connector {
    pub(crate) fn new(tls: &Tls, http2: bool) -> Connector {
        Connector { tls: tls.clone(), config: Arc::new(tls.config(http2)), of_clients: HashMap::new() }
    }

    pub(crate) fn session(&mut self, client: usize) -> Result<UnbufferedClientConnection, rustls::Error> {
        let config = if self.tls.resume {
            self.of_clients.entry(client).or_insert_with(|| {
                let mut config = (*self.config).clone();
                config.resumption = Resumption::in_memory_sessions(TICKETS_MAX);
                Arc::new(config)
            })
        } else {
            &self.config
        };
        UnbufferedClientConnection::new(config.clone(), self.tls.name.clone())
    }
}

/// Accepts every certificate, but not every signature: a server still has to prove that the key is its own.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
