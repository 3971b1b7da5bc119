//! A certificate with its key, read from two files.
//!
//! The files are read whole, because they are small. Whether a certificate suits its sites is [`check`](crate::check)'s.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::names;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, crypto};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Where a certificate and its key are, both as PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, and behind it the intermediate ones.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A certificate that can be shown to clients.
#[derive(Clone, Debug)]
pub struct Certificate {
    files: CertificateFiles,
    key: Arc<CertifiedKey>,
    /// The names that it is for, in lower case: hosts, `*.` patterns and addresses.
    names: Vec<String>,
    stamps: [Option<FileStamp>; 2],
}

/// By what a changed file is recognized.
pub(crate) type FileStamp = (u64, u64, i64, i64);

/// A file of certificates is no longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Certificate {
    /// # Errors
    /// If a file cannot be read, or holds no certificate or key, or if the key is another certificate's. The text names the
    /// file.
    pub fn read(files: &CertificateFiles) -> Result<Self, String> {
        let of_certificate = |why: String| format!("{}: {why}", files.certificate.display());
        let of_key = |why: String| format!("{}: {why}", files.key.display());
        let (pem, certificate_stamp) = read(&files.certificate).map_err(of_certificate)?;
        let chain = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| of_certificate(format!("no certificate in the form of PEM: {error}")))?;
        let leaf = chain.first().ok_or_else(|| of_certificate("there is no certificate in it".into()))?;
        let names = names_of(leaf).map_err(of_certificate)?;
        let (pem, key_stamp) = read(&files.key).map_err(of_key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
            of_key(match pem.windows(ENCRYPTED.len()).any(|text| text == ENCRYPTED) {
                true => "the key is encrypted with a passphrase; write it without one".into(),
                false => "there is no private key in it".into(),
            })
        })?;
        let key = crypto::aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|error| of_key(format!("a key of a kind that cannot be used: {error}")))?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // A kind of key that does not tell its public half.
            Ok(()) | Err(Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => {
                let certificate = files.certificate.display();
                return Err(of_key(format!("this is not the key of the certificate in {certificate}")));
            }
        }
        let stamps = [certificate_stamp, key_stamp];
        Ok(Self { files: files.clone(), key: Arc::new(key), names, stamps })
    }

    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it is for this host.
    pub fn covers(&self, host: &str) -> bool {
        self.names.iter().any(|pattern| names::covers(pattern, host))
    }

    pub(crate) fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether one of its files is another one than when it was read. A file that is gone has not changed.
    pub(crate) fn has_changed(&self) -> bool {
        let files = [&self.files.certificate, &self.files.key];
        self.stamps.iter().zip(files).any(|(then, path)| has_changed(path, then))
    }
}

/// Whether a file is another one than it was. One that is gone has not changed.
pub(crate) fn has_changed(path: &Path, then: &Option<FileStamp>) -> bool {
    let now = fs::metadata(path).ok().as_ref().map(stamp);
    now.is_some() && *then != now
}

const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// A small file, and what a change of it is recognized by.
pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, Option<FileStamp>), String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a file".into());
    }
    if found.len() > FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB".into());
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok((bytes, Some(stamp(&found))))
}

fn stamp(found: &Metadata) -> FileStamp {
    (found.ino(), found.len(), found.mtime(), found.mtime_nsec())
}

/// The names that a certificate is for (RFC 9525 §4.1).
fn names_of(leaf: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, leaf) =
        X509Certificate::from_der(leaf).map_err(|error| format!("no certificate of X.509: {error}"))?;
    let Ok(Some(alternatives)) = leaf.subject_alternative_name() else { return Ok(Vec::new()) };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| std::net::Ipv4Addr::from(octets).to_string()),
            16 => {
                <[u8; 16]>::try_from(*bytes).ok().map(|octets| std::net::Ipv6Addr::from(octets).to_string())
            }
            _ => None,
        },
        _ => None,
    };
    Ok(alternatives.value.general_names.iter().filter_map(name).collect())
}
