//! TLS with servers behind this one, on bytes.
//!
//! A server is asked for by its name, and has to show a certificate for it. A step of the handshake is taken where its bytes arrive.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use flash_core::upstream::{UpstreamSession, UpstreamTls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto};

use crate::certificates::{self, Open};

/// What sessions with one server begin with.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The authorities that this machine trusts.
static OF_MACHINE: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

/// Reads the authorities that this machine trusts, for a process that cannot read files later.
pub fn load_authorities() {
    LazyLock::force(&OF_MACHINE);
}

/// Reads a file of authorities, in PEM.
///
/// # Errors
/// The file cannot be read. The text names it.
pub fn read_authorities(path: &Path, open: &Open<'_>) -> Result<Vec<u8>, String> {
    certificates::read(path, open).map(|(pem, _)| pem).map_err(|why| format!("{}: {why}", path.display()))
}

impl Client {
    /// For the server of this name. `authorities` are certificates in PEM; without them, those that this machine trusts. One of the
    /// `protocols` is spoken (RFC 7301), if there are any.
    ///
    /// # Errors
    /// There is no authority, or the name is none.
    pub fn new(name: &str, authorities: Option<&[u8]>, protocols: &[&[u8]]) -> Result<Self, String> {
        let roots = match authorities {
            None => Arc::clone(&OF_MACHINE),
            Some(pem) => Arc::new(certificates::authorities_in(pem)?),
        };
        if roots.is_empty() {
            return Err(
                "there is no certificate of an authority: install ca-certificates, or name a file".into()
            );
        }
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| format!("'{name}' is no name of a server"))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has the suites of TLS 1.2 and 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Self { config: Arc::new(config), name })
    }
}

impl UpstreamTls for Client {
    fn begin(&self) -> Box<dyn UpstreamSession> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("the configuration goes with each name");
        // Its caller says how much it seals.
        connection.set_buffer_limit(None);
        Box::new(Session { connection })
    }
}

#[derive(Debug)]
struct Session {
    connection: ClientConnection,
}

impl Session {
    fn write_to(&mut self, sealed: &mut Vec<u8>) {
        while self.connection.wants_write() && self.connection.write_tls(sealed).is_ok_and(|count| count > 0)
        {
        }
    }
}

impl UpstreamSession for Session {
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) {
        // It fails after the end of the session alone, which `open` has told.
        let _ = self.connection.writer().write_all(plain);
        self.write_to(sealed);
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn end(&mut self, sealed: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.write_to(sealed);
    }

    fn open(
        &mut self,
        mut bytes: &[u8],
        plain: &mut Vec<u8>,
        sealed: &mut Vec<u8>,
    ) -> Result<bool, &'static str> {
        let mut has_ended = false;
        while !bytes.is_empty() {
            match self.connection.read_tls(&mut bytes) {
                Ok(0) | Err(_) => return Ok(true),
                Ok(_) => {}
            }
            let processed = self.connection.process_new_packets();
            self.write_to(sealed);
            let state = processed.map_err(|error| match error {
                rustls::Error::InvalidCertificate(_) => {
                    "shows a certificate that is not accepted for its name"
                }
                _ => "fails in its TLS",
            })?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            self.connection.reader().read_exact(&mut plain[before..]).map_err(|_| "fails in its TLS")?;
            has_ended |= state.peer_has_closed();
        }
        Ok(has_ended)
    }
}

#[cfg(test)]
mod tests {
    use flash_core::upstream::UpstreamTls;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection};

    use super::*;

    fn server(names: &[&str]) -> (ServerConnection, String) {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        (ServerConnection::new(Arc::new(config)).unwrap(), own.cert.pem())
    }

    /// What the client says until both sides have nothing more to send.
    fn talk(
        session: &mut dyn UpstreamSession,
        server: &mut ServerConnection,
        mut sealed: Vec<u8>,
    ) -> Result<Vec<u8>, &'static str> {
        let mut plain = Vec::new();
        loop {
            let mut to_server = &std::mem::take(&mut sealed)[..];
            while !to_server.is_empty() {
                server.read_tls(&mut to_server).unwrap();
                let _ = server.process_new_packets();
            }
            let mut to_client = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut to_client).unwrap();
            }
            if to_client.is_empty() {
                return Ok(plain);
            }
            session.open(&to_client, &mut plain, &mut sealed)?;
        }
    }

    #[test]
    fn bytes_pass_in_both_directions_and_the_end_is_told() {
        let (mut server, pem) = server(&["app.internal"]);
        let client = Client::new("app.internal", Some(pem.as_bytes()), &[]).unwrap();
        let (mut session, mut sealed) = (client.begin(), Vec::new());
        session.seal(b"hello", &mut sealed);
        assert_eq!(talk(&mut *session, &mut server, sealed), Ok(Vec::new()));
        let mut said = [0; 5];
        server.reader().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"hello");
        let much = vec![b'x'; 300_000];
        server.set_buffer_limit(None);
        server.writer().write_all(&much).unwrap();
        assert!(talk(&mut *session, &mut server, Vec::new()) == Ok(much));
        server.send_close_notify();
        let mut last = Vec::new();
        server.write_tls(&mut last).unwrap();
        assert_eq!(session.open(&last, &mut Vec::new(), &mut Vec::new()), Ok(true));
    }

    #[test]
    fn a_server_of_another_name_or_another_authority_is_none() {
        let (_, pem) = server(&["app.internal"]);
        for name in ["app.internal", "other.internal"] {
            let (mut other, _) = server(&["other.internal"]);
            let client = Client::new(name, Some(pem.as_bytes()), &[]).unwrap();
            let (mut session, mut sealed) = (client.begin(), Vec::new());
            session.seal(b"hello", &mut sealed);
            let said = talk(&mut *session, &mut other, sealed);
            assert_eq!(said, Err("shows a certificate that is not accepted for its name"), "{name}");
        }
        assert!(Client::new("no name", None, &[]).is_err() && Client::new("a", Some(b""), &[]).is_err());
    }
}
