//! Certificates that Flash signs itself: one that stands in until an authority has issued another, and one that answers an
//! authority's challenge TLS-ALPN-01.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::crypto;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ServerConfig;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// The name of ALPN by which an authority asks (RFC 8737 §3).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

const DAY: Duration = Duration::from_secs(24 * 3600);
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// A certificate for these hosts that no client trusts.
pub(crate) fn for_hosts(hosts: &[String]) -> Result<CertifiedKey, rcgen::Error> {
    make(hosts, Vec::new())
}

/// What answers the handshake in which an authority asks for `host`.
pub(crate) fn for_challenge(host: &str, key_authorization: &[u8]) -> Option<Arc<ServerConfig>> {
    let asked = CustomExtension::new_acme_identifier(digest(&SHA256, key_authorization).as_ref());
    let key = make(&[host.to_owned()], vec![asked]).ok()?;
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    config.send_tls13_tickets = 0;
    Some(Arc::new(config))
}

fn make(hosts: &[String], extensions: Vec<CustomExtension>) -> Result<CertifiedKey, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Flash, until an authority issues a certificate");
    params.custom_extensions = extensions;
    // From a day ago, because clocks differ.
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - DAY).into(), (now + VALIDITY).into());
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = crypto::aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|_| rcgen::Error::UnsupportedSignatureAlgorithm)?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    #[test]
    fn the_answer_to_a_challenge_is_in_a_critical_extension() {
        let authorization = digest(&SHA256, b"token.thumbprint");
        let asked = CustomExtension::new_acme_identifier(authorization.as_ref());
        let key = make(&["www.example".into()], vec![asked]).unwrap();
        let (_, certificate) = X509Certificate::from_der(&key.cert[0]).unwrap();
        // RFC 8737 §6.1, and §3: an octet string of the digest.
        let id = |id: &str| certificate.extensions().iter().find(|of| of.oid.to_id_string() == id).cloned();
        let found = id("1.3.6.1.5.5.7.1.31").expect("the extension");
        assert!(found.critical);
        assert_eq!(found.value, [&[4, 32], authorization.as_ref()].concat());
        assert!(for_challenge("www.example", b"token.thumbprint").is_some());
        assert!(for_challenge("\u{e4}", b"").is_none(), "no name of DNS");
    }
}
