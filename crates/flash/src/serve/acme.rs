//! Certificates that an authority issues: which ones sites want, and where they are.

use std::collections::BTreeSet;

use flash_core::site::hosts::HostName;
use flash_tls::CertificateFiles;

use crate::failure::Failure;
use crate::flags::{self, HOSTS_OF_SITE, check_issuable};

/// Where authorities ask (RFC 8555 §8.3, RFC 8737 §3).
pub(super) const PORTS: [u16; 2] = [80, 443];

/// The hosts of the certificate of a site that wants one.
pub(super) fn hosts(
    server: &flags::Serve,
    tls: &flags::Tls,
    names: &[HostName],
) -> Result<Option<Vec<String>>, Failure> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if !tls.is_acme() {
        return Ok(None);
    }
    let hosts: Vec<String> = match &tls.acme[..] {
        [hosts] if hosts == HOSTS_OF_SITE => {
            let name = |name: &HostName| match name {
                HostName::Exact(name) => Some(text(name).trim_matches(['[', ']']).to_owned()),
                HostName::Below(name) => Some(format!("*.{}", text(name))),
                HostName::Any => None,
            };
            names.iter().filter_map(name).collect()
        }
        hosts => hosts.to_vec(),
    };
    let mut known = BTreeSet::new();
    let hosts: Vec<String> = hosts.into_iter().filter(|host| known.insert(host.clone())).collect();
    if hosts.is_empty() {
        let why = "an authority issues a certificate for hosts, and none is named: write [site.\"www.example.org\"]";
        return Err(Failure::Usage(why.into()));
    }
    hosts.iter().try_for_each(|host| check_issuable(host)).map_err(Failure::Usage)?;
    match hosts.iter().find(|host| host.starts_with("*.")) {
        Some(host) if server.acme.acme_dns.is_empty() => Err(Failure::Usage(format!(
            "an authority issues a certificate for {host} to those only who set a record of DNS: write acme-dns"
        ))),
        _ => Ok(Some(hosts)),
    }
}

/// Where the certificate for these hosts is, with its key in one file.
pub(super) fn files(server: &flags::Serve, hosts: Vec<String>) -> CertificateFiles {
    let path = flash_acme::file_of(&server.acme.acme_folder, &hosts[0]);
    CertificateFiles { certificate: path.clone(), key: path, stand_in: hosts }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: flags::Serve,
    }

    #[test]
    fn a_host_that_is_named_twice_is_asked_for_once() {
        let line = ["flash", "--acme", "a.example", "--acme", "b.example", "--acme", "A.example"];
        let flags = Line::try_parse_from(line).unwrap().serve;
        let hosts = hosts(&flags, &flags.tls, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(hosts.unwrap(), ["a.example", "b.example"]);
    }
}
