//! What carries a connection's bytes, as far as requests and responses depend on it.
//!
//! The driver knows it after accepting. For TLS it knows the rest when the handshake is complete. The bytes, and their
//! encryption, are below the request path.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use flash_http::Scheme;

use crate::record::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportInfo {
    pub peer: Peer,
    pub scheme: Scheme,
    /// The first bytes are a header of the [PROXY protocol](crate::clients::proxy_header), because the listener requires one.
    pub proxy_header: bool,
    /// What the TLS handshake has agreed on.
    pub tls: Option<TlsInfo>,
}

/// What a TLS handshake has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    pub protocol: ApplicationProtocol,
    /// The certificates that the client was shown. They hold for some of the sites.
    pub certificates: CertificatesId,
    /// The protocol's number on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's number on the wire.
    pub cipher: u16,
    /// The client has shown a certificate that was verified, in this handshake or in that of the session that it resumes.
    pub has_client_certificate: bool,
    /// The handshake is not complete. Others may have recorded what comes meanwhile, to send it again (RFC 8470).
    pub is_early: bool,
}

/// What programs learn of the certificate that a client has shown, each in the form that mod_ssl gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Both names are distinguished names (RFC 4514).
    pub subject: String,
    pub issuer: String,
    pub common_name: String,
    /// In hexadecimal digits.
    pub serial: String,
    pub not_before: String,
    pub not_after: String,
}

impl ClientCertificate {
    /// The names of the variables, and their values.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 6] {
        [
            ("SSL_CLIENT_S_DN", &self.subject),
            ("SSL_CLIENT_I_DN", &self.issuer),
            ("SSL_CLIENT_S_DN_CN", &self.common_name),
            ("SSL_CLIENT_M_SERIAL", &self.serial),
            ("SSL_CLIENT_V_START", &self.not_before),
            ("SSL_CLIENT_V_END", &self.not_after),
        ]
    }
}

/// The protocol within the connection, by ALPN (RFC 7301). A client that names none speaks HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplicationProtocol {
    #[default]
    Http1,
    Http2,
}

/// Sites with the same number have the same certificates, and the same rules for those of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificatesId(pub u32);

impl CertificatesId {
    /// Those of a handshake with an authority, which asks for no site.
    pub const NO_SITES: Self = Self(u32::MAX);
}

/// The certificates of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCertificates {
    pub present: CertificatesId,
    /// What it had before reloads, with the same rules for clients. Clients that were shown these go on over their connections.
    pub earlier: Arc<[CertificatesId]>,
}

impl SiteCertificates {
    /// Whether a client that was shown these was shown the site's own.
    pub fn include(&self, shown: CertificatesId) -> bool {
        self.present == shown || self.earlier.contains(&shown)
    }
}

impl TlsInfo {
    /// The version, as OpenSSL names it.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            0x0303 => "TLSv1.2",
            0x0304 => "TLSv1.3",
            _ => "unknown",
        }
    }

    /// The cipher suite, as OpenSSL names it, and the bits of its key.
    pub fn cipher_name(&self) -> (&'static str, u16) {
        match self.cipher {
            0x1301 => ("TLS_AES_128_GCM_SHA256", 128),
            0x1302 => ("TLS_AES_256_GCM_SHA384", 256),
            0x1303 => ("TLS_CHACHA20_POLY1305_SHA256", 256),
            0xc02b => ("ECDHE-ECDSA-AES128-GCM-SHA256", 128),
            0xc02c => ("ECDHE-ECDSA-AES256-GCM-SHA384", 256),
            0xc02f => ("ECDHE-RSA-AES128-GCM-SHA256", 128),
            0xc030 => ("ECDHE-RSA-AES256-GCM-SHA384", 256),
            0xcca8 => ("ECDHE-RSA-CHACHA20-POLY1305", 256),
            0xcca9 => ("ECDHE-ECDSA-CHACHA20-POLY1305", 256),
            _ => ("unknown", 0),
        }
    }
}

impl TransportInfo {
    /// The length of [`TransportInfo::to_bytes`].
    pub(crate) const BYTES: usize = 1 + 16 + 2 + 1;

    /// A socket without encryption.
    pub fn plain(peer: Peer) -> Self {
        Self { peer, scheme: Scheme::Http, proxy_header: false, tls: None }
    }

    /// The same socket after its TLS handshake.
    pub fn secured(self, tls: TlsInfo) -> Self {
        Self { scheme: Scheme::Https, tls: Some(tls), ..self }
    }

    /// Whether the client itself has shown a certificate. No proxy can show one for it.
    pub(crate) fn has_client_certificate(&self) -> bool {
        self.tls.is_some_and(|tls| tls.has_client_certificate)
    }

    /// Whether what comes may be a repetition, because the TLS handshake is not complete.
    pub(crate) fn is_early(&self) -> bool {
        self.tls.is_some_and(|tls| tls.is_early)
    }

    /// For another process that goes on with the connection, whose first bytes have been read. Without TLS.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        if let Peer::Inet(address) = self.peer {
            let (family, ip) = match address.ip() {
                IpAddr::V4(ip) => (4, ip.to_ipv6_mapped()),
                IpAddr::V6(ip) => (6, ip),
            };
            bytes[0] = family;
            bytes[1..17].copy_from_slice(&ip.octets());
            bytes[17..19].copy_from_slice(&address.port().to_ne_bytes());
        }
        bytes[19] = u8::from(self.scheme == Scheme::Https);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (family, rest) = bytes.split_first()?;
        let (ip, rest) = rest.split_first_chunk::<16>()?;
        let (port, scheme) = rest.split_first_chunk()?;
        let ip = Ipv6Addr::from(*ip);
        let ip = match family {
            0 => None,
            4 => Some(IpAddr::V4(ip.to_ipv4_mapped()?)),
            6 => Some(IpAddr::V6(ip)),
            _ => return None,
        };
        let port = u16::from_ne_bytes(*port);
        let scheme = match scheme {
            [0] => Scheme::Http,
            [1] => Scheme::Https,
            _ => return None,
        };
        let peer = ip.map_or(Peer::Unix, |ip| Peer::Inet(SocketAddr::new(ip, port)));
        Some(Self { scheme, ..Self::plain(peer) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_gets_the_same() {
        for (peer, scheme) in [
            (Peer::Unix, Scheme::Http),
            (Peer::Inet("192.0.2.1:7".parse().unwrap()), Scheme::Https),
            (Peer::Inet("[2001:db8::1]:65535".parse().unwrap()), Scheme::Http),
        ] {
            let transport = TransportInfo { scheme, ..TransportInfo::plain(peer) };
            assert_eq!(TransportInfo::from_bytes(&transport.to_bytes()), Some(transport));
        }
        let mut bytes = TransportInfo::plain(Peer::Unix).to_bytes();
        bytes[0] = 5;
        assert_eq!(TransportInfo::from_bytes(&bytes), None);
    }
}
