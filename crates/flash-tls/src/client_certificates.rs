//! The certificates of clients: which authorities may have signed them, and whom they name.
//!
//! What a program learns of a client's certificate is written once for each connection, in mod_ssl's forms. Whether a
//! certificate is valid is rustls's decision.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use flash_core::connection::transport::ClientCertificate;
use rustls::crypto;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

use crate::certificates::{self, FileStamp, Open};

/// The authorities whose certificates clients show, and whether each client has to.
#[derive(Clone, Debug)]
pub struct ClientAuthorities {
    path: PathBuf,
    is_required: bool,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Of the file, and of whether a certificate is required. A ticket of a session is for one of them.
    digest: [u8; 32],
    stamp: Option<FileStamp>,
}

impl ClientAuthorities {
    /// # Errors
    /// If the file cannot be read, or holds no certificate of an authority. The text names the file.
    pub fn read(path: &Path, is_required: bool, open: &Open<'_>) -> Result<Self, String> {
        let of_file = |why: String| format!("{}: {why}", path.display());
        let (pem, stamp) = certificates::read(path, open).map_err(of_file)?;
        let roots = certificates::authorities_in(&pem).map_err(of_file)?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if is_required { builder } else { builder.allow_unauthenticated() };
        let verifier =
            builder.build().map_err(|_| of_file("there is no certificate of an authority in it".into()))?;
        let mut known = [0; 32];
        known.copy_from_slice(digest(&SHA256, &[&[u8::from(is_required)], &pem[..]].concat()).as_ref());
        Ok(Self { path: path.into(), is_required, verifier, digest: known, stamp })
    }

    /// Reads the file again.
    pub(crate) fn again(&self, open: &Open<'_>) -> Result<Self, String> {
        Self::read(&self.path, self.is_required, open)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Of the file, when it was read.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        self.stamp
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    pub(crate) fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

/// What programs learn of a certificate. rustls has verified it.
pub(crate) fn describe(certificate: &CertificateDer<'_>) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let validity = certificate.validity();
    // OpenSSL writes a serial number without the zero that makes it positive.
    let serial = certificate.raw_serial();
    let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
    Some(ClientCertificate {
        subject: distinguished_name(certificate.subject()),
        issuer: distinguished_name(certificate.issuer()),
        common_name: certificate.subject().iter_common_name().next().map(value).unwrap_or_default(),
        serial: serial.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }),
        not_before: time(validity.not_before),
        not_after: time(validity.not_after),
    })
}

/// As OpenSSL prints times, and mod_ssl with it.
fn time(time: x509_parser::time::ASN1Time) -> String {
    let time = time.to_datetime();
    let month = &time.month().to_string()[..3];
    let (day, (hour, minute, second), year) = (time.day(), time.to_hms(), time.year());
    format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

/// RFC 4514: the last part first, as mod_ssl and nginx write it.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let part = |attribute: &AttributeTypeAndValue<'_>| {
        let oid = attribute.attr_type();
        let name = x509_parser::objects::oid2abbrev(oid, x509_parser::objects::oid_registry())
            .map_or_else(|_| oid.to_id_string(), str::to_owned);
        format!("{name}={}", value(attribute))
    };
    let parts = name.iter_rdn().map(|parts| parts.iter().map(part).collect::<Vec<_>>().join("+"));
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

/// A value of a name, with what would end it escaped (RFC 4514 §2.4).
fn value(attribute: &AttributeTypeAndValue<'_>) -> String {
    let mut escaped = String::new();
    let Ok(text) = attribute.as_str() else {
        // A value in an old set of characters.
        escaped.push('#');
        for byte in attribute.attr_value().data {
            let _ = write!(escaped, "{byte:02X}");
        }
        return escaped;
    };
    let last = text.chars().count().saturating_sub(1);
    for (at, character) in text.chars().enumerate() {
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            ' ' if at == 0 || at == last => escaped.push_str("\\ "),
            '#' if at == 0 => escaped.push_str("\\#"),
            '\0'..=' ' | '\x7f' if character != ' ' => {
                let _ = write!(escaped, "\\{:02X}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SerialNumber};

    use super::*;

    #[test]
    fn a_name_is_written_with_its_last_part_first_and_nothing_ends_a_value() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "NL");
        params.distinguished_name.push(DnType::OrganizationName, " Made, of + \"parts\"\n");
        params.distinguished_name.push(DnType::CommonName, "#1 Ünal");
        params.serial_number = Some(SerialNumber::from_slice(&[0xa1, 0x02]));
        params.not_before = rcgen::date_time_ymd(2026, 2, 3);
        params.not_after = rcgen::date_time_ymd(2049, 12, 31);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let known = describe(certificate.der()).unwrap();
        assert_eq!(known.subject, "CN=\\#1 Ünal,O=\\ Made\\, of \\+ \\\"parts\\\"\\0A,C=NL");
        assert_eq!(known.issuer, known.subject);
        assert_eq!((&*known.common_name, &*known.serial), ("\\#1 Ünal", "A102"));
        assert_eq!(
            (&*known.not_before, &*known.not_after),
            ("Feb  3 00:00:00 2026 GMT", "Dec 31 00:00:00 2049 GMT")
        );
    }

    #[test]
    fn a_file_without_an_authority_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        for (text, why) in [
            ("", "there is no certificate of an authority in it"),
            ("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", "cannot be used"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = ClientAuthorities::read(&path, true, &flash_trust::open).unwrap_err();
            assert!(said.contains(why) && said.contains("ca.pem"), "{said}");
        }
        assert!(ClientAuthorities::read(&folder.path().join("none"), true, &flash_trust::open).is_err());
    }
}
