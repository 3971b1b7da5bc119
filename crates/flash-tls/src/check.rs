//! Whether clients will accept a certificate for the hosts of its sites. What is found is said, and served all the same.

use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificates::Certificate;
use crate::names::covers;

/// A certificate that expires within this time is worth a warning, and one of a short life within this part of it.
const SOON_SECONDS: i64 = 14 * 24 * 3600;
const SOON_SHARE: i64 = 6;
const DAY_SECONDS: i64 = 24 * 3600;

/// What is wrong with a certificate, each with the path of its file. `hosts` are names of its sites, `now` is in seconds since
/// 1970.
pub fn problems(certificate: &Certificate, hosts: &[String], now: i64) -> Vec<String> {
    let mut problems = found(certificate, hosts, now, SOON_SECONDS);
    problems.extend(staple_problems(certificate, now));
    problems
}

/// What is wrong with the authority's answer about it.
pub(crate) fn staple_problems(certificate: &Certificate, now: i64) -> Vec<String> {
    let (staple, now) = (certificate.files().staple(), u64::try_from(now).unwrap_or_default());
    let is_stapled = certificate.stapled_key(now).is_some();
    let mut problems = Vec::new();
    if let Some(fault) = certificate.staple_fault(now) {
        let instead = if is_stapled { "the one before is stapled" } else { "it is not stapled" };
        problems.push(format!("{}: {fault}; {instead}", staple.display()));
    }
    if certificate.must_staple() && !is_stapled {
        let path = certificate.files().certificate.display();
        problems.push(format!(
            "{path}: the certificate asks for OCSP stapling (must-staple), and {} has no answer of its authority: some clients refuse it",
            staple.display()
        ));
    }
    problems
}

/// Why no client may be shown a certificate in the place of `present`, if `present` has no such fault itself. One that nobody trusts
/// gives way to any other.
pub(crate) fn fault_of_renewal(present: &Certificate, renewed: &Certificate, now: i64) -> Option<String> {
    if present.is_stand_in() {
        return None;
    }
    let has_common_name = renewed.names().iter().any(|name| present.names().contains(name));
    let hosts = if has_common_name { &[][..] } else { present.names() };
    let faults = found(renewed, hosts, now, 0);
    let is_better = found(present, &[], now, 0).is_empty();
    faults.into_iter().next().filter(|_| is_better)
}

/// Expiry within `soon_seconds` is among what is wrong.
fn found(certificate: &Certificate, hosts: &[String], now: i64, soon_seconds: i64) -> Vec<String> {
    let mut problems = Vec::new();
    let chain: Vec<X509Certificate<'_>> = certificate
        .chain()
        .iter()
        .filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate))
        .collect();
    let Some(leaf) = chain.first() else { return problems };
    for (number, link) in chain.iter().enumerate() {
        let which = if number == 0 { "the certificate" } else { "an intermediate certificate" };
        let (begins, ends) = (link.validity().not_before.timestamp(), link.validity().not_after.timestamp());
        let days = |seconds: i64| match seconds / DAY_SECONDS {
            0 => "less than a day".to_owned(),
            1 => "a day".into(),
            days => format!("{days} days"),
        };
        if ends < now {
            problems.push(format!("{which} expired {} ago", days(now - ends)));
        } else if begins > now {
            problems.push(format!("{which} is not valid for another {}", days(begins - now)));
        } else if number == 0 && ends - now < soon_seconds.min((ends - begins) / SOON_SHARE) {
            problems.push(format!("{which} expires in {}", days(ends - now)));
        }
    }
    let names = certificate.names();
    for host in hosts {
        if !names.iter().any(|pattern| covers(pattern, host)) {
            let known = if names.is_empty() { "no name".into() } else { names.join(", ") };
            problems.push(format!("the certificate is not for {host}, but for {known}"));
        }
    }
    for pair in chain.windows(2) {
        if pair[0].issuer() != pair[1].subject() {
            problems.push(format!(
                "the certificates are not in order: {} did not issue {}",
                pair[1].subject(),
                pair[0].subject()
            ));
        }
    }
    // Public authorities issue by intermediate certificates, and say where to get them.
    let names_issuer = |extension: &ParsedExtension<'_>| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension else { return false };
        access.accessdescs.iter().any(|access| access.access_method.to_id_string() == CA_ISSUERS)
    };
    if chain.len() == 1
        && leaf.issuer() != leaf.subject()
        && leaf.extensions().iter().any(|extension| names_issuer(extension.parsed_extension()))
    {
        problems.push(format!(
            "the intermediate certificate of {} is missing: the file must have the whole chain",
            leaf.issuer()
        ));
    }
    let path = certificate.files().certificate.display();
    problems.into_iter().map(|problem| format!("{path}: {problem}")).collect()
}

/// RFC 5280 §4.2.2.1.
const CA_ISSUERS: &str = "1.3.6.1.5.5.7.48.2";

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;
    use crate::CertificateFiles;

    #[test]
    fn a_certificate_that_must_be_stapled_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pem");
        for (features, is_said) in [(&[5][..], true), (&[17, 5], true), (&[17], false), (&[], false)] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            let integers: Vec<u8> = features.iter().flat_map(|number| [2, 1, *number]).collect();
            let value = [&[0x30, integers.len() as u8], &integers[..]].concat();
            let extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 24], value);
            params.custom_extensions.extend((!features.is_empty()).then_some(extension));
            fs::write(&path, key.serialize_pem() + &params.self_signed(&key).unwrap().pem()).unwrap();
            let files =
                CertificateFiles { certificate: path.clone(), key: path.clone(), stand_in: Vec::new() };
            let certificate = Certificate::read(&files, &|path| File::open(path)).unwrap();
            let said = problems(&certificate, &[], 1_800_000_000);
            assert_eq!(said.iter().any(|why| why.contains("must-staple")), is_said, "{features:?}: {said:?}");
            assert_eq!(fault_of_renewal(&certificate, &certificate, 1_800_000_000), None);
        }
    }
}
