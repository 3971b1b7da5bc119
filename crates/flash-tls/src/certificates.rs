//! A certificate with its key, read from two files.
//!
//! The files are read whole, because they are small. Whether a certificate suits its sites is [`check`](crate::check)'s.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ocsp::{self, Staple, Subject};
use crate::{names, self_signed};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore, crypto};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Version};

/// Where a certificate and its key are, both as PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, and behind it the intermediate ones.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// While there is no file, a certificate for these hosts stands in that Flash signs itself. Without hosts, none does.
    pub stand_in: Vec<String>,
}

/// A certificate that can be shown to clients.
#[derive(Clone, Debug)]
pub struct Certificate {
    files: CertificateFiles,
    key: Arc<CertifiedKey>,
    leaf: Leaf,
    stamps: [Option<FileStamp>; 2],
    stapled: Stapled,
    /// Why it stands in for its files, if they are there.
    fault: Option<String>,
}

/// What the authority has said of a certificate, by the file beside it.
#[derive(Clone, Debug, Default)]
struct Stapled {
    /// The same key with the answer, and from when until when that is true.
    key: Option<(Arc<CertifiedKey>, Staple)>,
    stamp: Option<FileStamp>,
    /// Why the file cannot be used, if it is or was there.
    fault: Option<String>,
}

/// What a certificate says of itself.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub serial: String,
    /// The names that it is for, in lower case: hosts, `*.` patterns and addresses.
    pub names: Vec<String>,
    /// From when until when it is valid, in seconds since the Unix epoch.
    pub validity_unix_s: [u64; 2],
    /// Clients are to refuse it without a stapled answer of OCSP.
    pub must_staple: bool,
    /// Where its authority answers by OCSP.
    pub responder: Option<String>,
}

/// By what a changed file is recognized.
pub(crate) type FileStamp = (u64, u64, i64, i64);

/// Opens a file of certificates. A process without the rights for that may have another one open it.
pub type Open<'a> = dyn Fn(&Path) -> io::Result<File> + 'a;

/// A file of certificates is no longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Certificate {
    /// # Errors
    /// If a file cannot be read, or holds no certificate or key, or if the key is another certificate's. The text names the
    /// file.
    pub fn read(files: &CertificateFiles, open: &Open<'_>) -> Result<Self, String> {
        let of_certificate = |why: String| format!("{}: {why}", files.certificate.display());
        let of_key = |why: String| format!("{}: {why}", files.key.display());
        let (pem, certificate_stamp) = read(&files.certificate, open).map_err(of_certificate)?;
        let chain = certificates_in(&pem).map_err(of_certificate)?;
        let leaf = chain.first().ok_or_else(|| of_certificate("there is no certificate in it".into()))?;
        let leaf = Leaf::read(leaf).map_err(of_certificate)?;
        let (pem, key_stamp) = read(&files.key, open).map_err(of_key)?;
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
            Err(Error::InconsistentKeys(_)) => {
                let certificate = files.certificate.display();
                return Err(of_key(format!("this is not the key of the certificate in {certificate}")));
            }
            Err(error) => return Err(of_certificate(format!("a certificate that cannot be used: {error}"))),
        }
        let stamps = [certificate_stamp, key_stamp];
        let stapled = Stapled::read(files, &key, open);
        Ok(Self { files: files.clone(), key: Arc::new(key), leaf, stamps, stapled, fault: None })
    }

    /// The same, but where a certificate can stand in, it does for files that are missing or cannot be used.
    ///
    /// # Errors
    /// As [`Self::read`], if none can.
    pub fn read_or_stand_in(files: &CertificateFiles, open: &Open<'_>) -> Result<Self, String> {
        match Self::read(files, open) {
            Err(_) if !files.stand_in.is_empty() && files.are_gone(open) => Self::stand_in(files, None),
            Err(fault) if !files.stand_in.is_empty() => Self::stand_in(files, Some(fault)),
            read => read,
        }
    }

    /// What is shown while there are no files that can be used.
    fn stand_in(files: &CertificateFiles, fault: Option<String>) -> Result<Self, String> {
        let hosts = &files.stand_in;
        let cannot = |why: String| format!("cannot make a certificate for {}: {why}", hosts.join(", "));
        let key = self_signed::for_hosts(hosts).map_err(|error| cannot(error.to_string()))?;
        let leaf = Leaf::read(&key.cert[0]).map_err(cannot)?;
        let (key, stapled) = (Arc::new(key), Stapled::default());
        Ok(Self { files: files.clone(), key, leaf, stamps: [None; 2], stapled, fault })
    }

    /// This certificate with the authority's answer that lies beside it now. If that is gone or cannot be used, the one before stays.
    pub(crate) fn stapled_again(&self, open: &Open<'_>) -> Self {
        let stapled = match self.is_stand_in() {
            true => Stapled::default(),
            false => Stapled::read(&self.files, &self.key, open).or(&self.stapled),
        };
        Self { stapled, ..self.clone() }
    }

    /// Why it stands in for its files, if they are there.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether Flash has signed it itself, because there are no files that can be used.
    pub fn is_stand_in(&self) -> bool {
        self.stamps == [None; 2]
    }

    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }

    pub fn names(&self) -> &[String] {
        &self.leaf.names
    }

    /// From when until when it is valid, in seconds since the Unix epoch.
    pub fn validity_unix_s(&self) -> [u64; 2] {
        self.leaf.validity_unix_s
    }

    pub(crate) fn must_staple(&self) -> bool {
        self.leaf.must_staple
    }

    /// The same since when, as clocks tell it.
    pub(crate) fn begins(&self) -> i64 {
        i64::try_from(self.leaf.validity_unix_s[0]).unwrap_or(i64::MAX)
    }

    /// Whether it is for this host.
    pub fn covers(&self, host: &str) -> bool {
        self.leaf.names.iter().any(|pattern| names::covers(pattern, host))
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// The same with the authority's answer, if there is one that is true now.
    pub(crate) fn stapled_key(&self, now: u64) -> Option<&Arc<CertifiedKey>> {
        let (key, staple) = self.stapled.key.as_ref()?;
        staple.is_valid(now).then_some(key)
    }

    /// Why the file with the authority's answer cannot be used, if it is or was there.
    pub(crate) fn staple_fault(&self, now: u64) -> Option<&str> {
        let is_past = self.stapled.key.as_ref().is_some_and(|(_, staple)| !staple.is_valid(now));
        self.stapled.fault.as_deref().or(is_past.then_some("the answer is of another time"))
    }

    /// Of the file with the authority's answer, when it was read.
    pub(crate) fn staple_stamp(&self) -> Option<FileStamp> {
        self.stapled.stamp
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Of the files of the certificate and of its key, when they were read.
    pub(crate) fn stamps(&self) -> [Option<FileStamp>; 2] {
        self.stamps
    }
}

impl Stapled {
    fn read(files: &CertificateFiles, key: &CertifiedKey, open: &Open<'_>) -> Self {
        let opened = open(&files.staple());
        if is_missing(&opened) {
            return Self::default();
        }
        let (der, stamp) = match read_opened(opened) {
            Ok(read) => read,
            Err(why) => return Self { fault: Some(why), ..Self::default() },
        };
        match Subject::of(&key.cert).and_then(|subject| subject.read(&der)) {
            Ok(staple) => {
                let (cert, signing) = (key.cert.clone(), Arc::clone(&key.key));
                let key = CertifiedKey { cert, key: signing, ocsp: Some(der) };
                Self { key: Some((Arc::new(key), staple)), stamp, fault: None }
            }
            Err(why) => Self { key: None, stamp, fault: Some(why) },
        }
    }

    fn or(mut self, before: &Self) -> Self {
        if let (None, Some(_)) = (&self.key, &before.key) {
            self.key.clone_from(&before.key);
            self.fault.get_or_insert_with(|| "the answer is gone".into());
        }
        self
    }
}

/// The file of an answer that is stapled to a certificate: it lies beside the certificate's, with `.ocsp` behind the name.
pub fn staple_of(certificate: &Path) -> PathBuf {
    let mut path = certificate.as_os_str().to_owned();
    path.push(".ocsp");
    path.into()
}

/// What a file is now, if it is there.
pub(crate) fn stamp_of(path: &Path, open: &Open<'_>) -> Option<FileStamp> {
    open(path).and_then(|file| file.metadata()).ok().as_ref().map(stamp)
}

const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// A small file, and what a change of it is recognized by.
pub(crate) fn read(path: &Path, open: &Open<'_>) -> Result<(Vec<u8>, Option<FileStamp>), String> {
    read_opened(open(path))
}

fn read_opened(opened: io::Result<File>) -> Result<(Vec<u8>, Option<FileStamp>), String> {
    let unread = |error: io::Error| format!("cannot read it: {error}");
    let file = opened.map_err(unread)?;
    let found = file.metadata().map_err(unread)?;
    if !found.is_file() {
        return Err("it is not a file".into());
    }
    if found.len() > FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB".into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(unread)?;
    Ok((bytes, Some(stamp(&found))))
}

fn stamp(found: &Metadata) -> FileStamp {
    (found.ino(), found.len(), found.mtime(), found.mtime_nsec())
}

/// The authorities of a file in the form of PEM, which may be none.
pub(crate) fn authorities_in(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates_in(pem)? {
        roots.add(root).map_err(|error| format!("a certificate that cannot be used: {error}"))?;
    }
    Ok(roots)
}

/// The certificates of a file in the form of PEM, which may be none.
pub(crate) fn certificates_in(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| {
        let why = match error {
            // The library tells the line in numbers.
            pem::Error::IllegalSectionStart { .. } | pem::Error::MissingSectionEnd { .. } => {
                "a line that begins with ----- has to be one marker and no more, and has to have its end"
                    .into()
            }
            error => error.to_string(),
        };
        format!("no certificate in the form of PEM: {why}")
    })
}

fn is_missing(opened: &io::Result<File>) -> bool {
    matches!(opened, Err(error) if error.kind() == ErrorKind::NotFound)
}

impl CertificateFiles {
    /// Whether the certificate's file is missing.
    pub(crate) fn are_gone(&self, open: &Open<'_>) -> bool {
        is_missing(&open(&self.certificate))
    }

    /// Where an answer of its authority is that is stapled to it.
    pub(crate) fn staple(&self) -> PathBuf {
        staple_of(&self.certificate)
    }
}

impl Leaf {
    /// # Errors
    /// If it is no certificate, or of a version that no client takes.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, leaf) =
            X509Certificate::from_der(der).map_err(|error| format!("no certificate of X.509: {error}"))?;
        if leaf.version() != X509Version::V3 {
            let version = leaf.version().0 + 1;
            return Err(format!(
                "a certificate of version {version}, which no client takes: make one of version 3, such as with openssl req -x509 -addext"
            ));
        }
        let validity = [leaf.validity().not_before, leaf.validity().not_after];
        Ok(Self {
            serial: leaf.raw_serial_as_string(),
            names: names_of(&leaf),
            // What was before 1970 counts as then.
            validity_unix_s: validity.map(|time| u64::try_from(time.timestamp()).unwrap_or_default()),
            must_staple: must_staple(&leaf),
            responder: ocsp::responder_of(&leaf),
        })
    }
}

/// RFC 7633: the TLS feature `status_request` (RFC 6066 §8), which has the number 5.
fn must_staple(leaf: &X509Certificate<'_>) -> bool {
    let features = leaf.extensions().iter().filter(|of| of.oid.to_id_string() == TLS_FEATURES);
    features.flat_map(|features| features.value.windows(STATUS_REQUEST.len())).any(|of| of == STATUS_REQUEST)
}

const TLS_FEATURES: &str = "1.3.6.1.5.5.7.1.24";
/// As an integer of DER.
const STATUS_REQUEST: [u8; 3] = [2, 1, 5];

/// RFC 9525 §4.1.
fn names_of(leaf: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(alternatives)) = leaf.subject_alternative_name() else { return Vec::new() };
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
    alternatives.value.general_names.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use super::*;
    use crate::ocsp::tests::bench;

    #[test]
    fn each_file_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("pem"), &bench().pem).unwrap();
        fs::copy(path("pem"), path("key")).unwrap();
        let files = CertificateFiles { certificate: path("pem"), key: path("key"), stand_in: Vec::new() };
        let opened = RefCell::new(Vec::new());
        let open = |path: &Path| {
            opened.borrow_mut().push(path.to_owned());
            File::open(path)
        };
        let certificate = Certificate::read(&files, &open).unwrap();
        assert_eq!(certificate.staple_fault(0), None, "there is no answer");
        assert_eq!(opened.take(), ["pem", "key", "pem.ocsp"].map(path));
    }
}
