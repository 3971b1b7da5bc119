//! A certificate authority for this machine, and its certificate for localhost: TLS without any preparation.
//!
//! Both are made once, in a folder of the user. The authority's key stays there, so browsers that trust the authority trust
//! later certificates, too.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv6Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};

use crate::certificates::{Certificate, CertificateFiles};
use crate::check;

/// What [`local`] has found or made.
#[derive(Debug)]
pub struct Local {
    /// The authority's certificate, to be trusted.
    pub authority: PathBuf,
    pub files: CertificateFiles,
    /// Whether the authority was made now.
    pub is_new: bool,
}

/// The names of the certificate.
pub const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Browsers refuse longer ones (825 days at most).
const DAYS: u64 = 365;
const AUTHORITY_DAYS: u64 = 10 * 365;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Finds the certificate for localhost in `folder`, or makes it. One that has expired is made again.
///
/// # Errors
/// If the folder cannot be written, or holds other things under these names.
pub fn local(folder: &Path) -> io::Result<Local> {
    let path = |name: &str| folder.join(name);
    let (authority, authority_key) = (path("authority.pem"), path("authority-key.pem"));
    let (certificate, key) = (path("localhost.pem"), path("localhost-key.pem"));
    let files = CertificateFiles { certificate, key, stand_in: Vec::new() };
    let is_new = !(authority.exists() && authority_key.exists());
    if !is_new && is_good(&files) {
        return Ok(Local { authority, files, is_new });
    }
    // From the outermost one on.
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.is_dir()).collect();
    missing.into_iter().rev().try_for_each(|folder| flash_trust::make_folder(folder, 0o700))?;
    flash_trust::check_folder(folder)?;
    let key = match is_new {
        true => KeyPair::generate().map_err(io::Error::other)?,
        false => KeyPair::from_pem(&fs::read_to_string(&authority_key)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", authority_key.display())))?,
    };
    if is_new {
        let certificate = authority_params().self_signed(&key).map_err(io::Error::other)?;
        write(&authority_key, key.serialize_pem().as_bytes(), 0o600)?;
        write(&authority, certificate.pem().as_bytes(), 0o644)?;
    }
    let issuer = Issuer::new(authority_params(), key);
    let own_key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = localhost_params()?.signed_by(&own_key, &issuer).map_err(io::Error::other)?;
    write(&files.key, own_key.serialize_pem().as_bytes(), 0o600)?;
    write(&files.certificate, certificate.pem().as_bytes(), 0o644)?;
    Ok(Local { authority, files, is_new })
}

fn is_good(files: &CertificateFiles) -> bool {
    let hosts = NAMES.map(str::to_owned);
    Certificate::read(files, &flash_trust::open)
        .is_ok_and(|found| check::problems(&found, &hosts, seconds(SystemTime::now())).is_empty())
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// They never change, because later certificates name their issuer by them.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("Flash, for this machine alone");
    // Whoever gets hold of the key cannot make certificates for other hosts.
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".into()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(Ipv6Addr::LOCALHOST.octets(), 128)),
        ],
        excluded_subtrees: Vec::new(),
    });
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    validity(&mut params, AUTHORITY_DAYS);
    params
}

fn localhost_params() -> io::Result<CertificateParams> {
    let mut params = CertificateParams::new(NAMES.map(str::to_owned)).map_err(io::Error::other)?;
    params.distinguished_name = common_name("localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    validity(&mut params, DAYS);
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// From a day ago, because clocks differ.
fn validity(params: &mut CertificateParams, days: u64) {
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * u32::try_from(days).unwrap_or(u32::MAX)).into();
}

/// Writes a file anew, and renames it, so that a reader never sees a part.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = path.with_extension("new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_stays_and_its_certificate_is_made_again_if_it_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("tls");
        let first = local(&folder).unwrap();
        assert!(first.is_new);
        let read = || (fs::read(&first.authority).unwrap(), fs::read(&first.files.certificate).unwrap());
        let before = read();
        assert!(!local(&folder).unwrap().is_new);
        assert_eq!(read(), before);
        fs::write(&first.files.certificate, "nonsense").unwrap();
        assert!(!local(&folder).unwrap().is_new);
        let after = read();
        assert!(after.0 == before.0 && after.1 != before.1);
        let mode =
            |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode(&first.files.key) & 0o777, 0o600);
    }
}
