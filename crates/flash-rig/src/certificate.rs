//! A certificate for the servers of an experiment: for 127.0.0.1, with a key of P-256, signed by itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::setup::TlsFiles;

/// Its files.
#[derive(Clone, Debug)]
pub struct LocalCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl LocalCertificate {
    /// Writes both files into a folder.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn make(folder: &Path) -> Result<LocalCertificate> {
        let pair = rcgen::KeyPair::generate().context("making a key")?;
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made =
            rcgen::CertificateParams::new(names)?.self_signed(&pair).context("making a certificate")?;
        let files =
            LocalCertificate { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
        fs::write(&files.certificate, made.pem())?;
        fs::write(&files.key, pair.serialize_pem())?;
        Ok(files)
    }

    pub fn files(&self) -> TlsFiles<'_> {
        TlsFiles { certificate: &self.certificate, key: &self.key }
    }
}
