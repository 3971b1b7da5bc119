//! A certificate that an authority has issued.

use instant_acme::CertificateIdentifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::renewal::Life;

#[derive(Clone, Debug)]
pub(crate) struct Issued {
    /// By which the authority knows it, if it names the key of its issuer.
    pub(crate) id: Option<CertificateIdentifier<'static>>,
    pub(crate) serial: String,
    pub(crate) life: Life,
    pub(crate) names: Vec<String>,
}

impl Issued {
    pub(crate) fn of_pem(pem: &[u8]) -> Option<Self> {
        let leaf = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        let id = CertificateIdentifier::try_from(&leaf).ok().map(CertificateIdentifier::into_owned);
        let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
        let second = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
        let validity = leaf.validity();
        let life = Life {
            begins: second(validity.not_before.timestamp()),
            ends: second(validity.not_after.timestamp()),
        };
        let names = leaf.subject_alternative_name().ok()??.value.general_names.iter();
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        Some(Self { id, serial: leaf.raw_serial_as_string(), life, names: names.collect() })
    }

    /// Whether it is for these hosts. An authority may add others.
    pub(crate) fn is_for(&self, hosts: &[String]) -> bool {
        hosts.iter().all(|host| self.names.contains(host))
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::Ipv4Addr::from(bytes).to_string());
    let v6 = <[u8; 16]>::try_from(bytes).map(|bytes| std::net::Ipv6Addr::from(bytes).to_string());
    v4.or(v6).ok()
}
