//! The numbers of certificates through reloads, by which a connection's requests are for sites that its client was shown.
//!
//! A set keeps its number while its sites keep it. A site may go over to another set. Then clients that were shown the earlier one
//! go on over their connections, unless the rules for their own certificates change. What certificates are is not known here.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use flash_core::connection::transport::{CertificatesId, SiteCertificates};
use flash_core::site::hosts::HostName;
use flash_tls::CertificateFiles;

use crate::flags::ClientCertificate;

/// What sites are shown with. Those with equal ones share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Set {
    pub(super) files: Vec<CertificateFiles>,
    pub(super) clients: Clients,
}

/// Whose certificates clients show, if any, and whether each has to.
pub(super) type Clients = Option<(PathBuf, ClientCertificate)>;

/// Hosts of a site, and its set, if it has certificates.
pub(super) type SiteSet<'a> = (&'a [HostName], Option<Set>);

#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// No number is given twice.
    next: u32,
    sets: HashMap<Set, CertificatesId>,
    of_hosts: HashMap<HostName, (SiteCertificates, Clients)>,
}

/// A connection that is older than so many changes of its site's certificates is told to connect again.
const EARLIER_MAX: usize = 1_000;

impl Numbers {
    /// The numbers after a reload, and those of each site.
    pub(super) fn next(&self, sites: &[SiteSet<'_>]) -> (Self, Vec<Option<SiteCertificates>>) {
        let parted = self.parted(sites);
        let mut next = Self { next: self.next, ..Self::default() };
        let none: Arc<[CertificatesId]> = Arc::default();
        let mut of_sites = Vec::with_capacity(sites.len());
        for (hosts, set) in sites {
            let Some(set) = set else {
                of_sites.push(None);
                continue;
            };
            let present = *next.sets.entry(set.clone()).or_insert_with(|| {
                self.sets.get(set).copied().filter(|number| !parted.contains(number)).unwrap_or_else(|| {
                    next.next += 1;
                    CertificatesId(next.next - 1)
                })
            });
            let before = self.before(hosts, set);
            let mut earlier: Vec<_> = before
                .flat_map(|own| own.earlier.iter().chain([&own.present]))
                .copied()
                .filter(|number| *number != present)
                .collect();
            earlier.sort();
            earlier.dedup();
            let left_out = earlier.len().saturating_sub(EARLIER_MAX);
            let earlier = if earlier.is_empty() { Arc::clone(&none) } else { earlier[left_out..].into() };
            let own = SiteCertificates { present, earlier };
            next.of_hosts.extend(hosts.iter().map(|host| (host.clone(), (own.clone(), set.clients.clone()))));
            of_sites.push(Some(own));
        }
        (next, of_sites)
    }

    /// What the site had before, if the rules for clients' certificates are the same.
    fn before<'a>(
        &'a self,
        hosts: &'a [HostName],
        set: &'a Set,
    ) -> impl Iterator<Item = &'a SiteCertificates> {
        let known = hosts.iter().filter_map(|host| self.of_hosts.get(host));
        known.filter(|(_, clients)| *clients == set.clients).map(|(own, _)| own)
    }

    /// Sets that some of their sites have left for another one. Later clients of the others are not shown what those were shown.
    fn parted(&self, sites: &[SiteSet<'_>]) -> HashSet<CertificatesId> {
        let left = |(hosts, set): &SiteSet<'_>| {
            let set = set.as_ref()?;
            let number = self.sets.get(set).copied();
            let own: Vec<_> =
                self.before(hosts, set).map(|own| own.present).filter(|own| Some(*own) != number).collect();
            Some(own)
        };
        sites.iter().filter_map(left).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "a.example";
    const B: &str = "b.example";

    fn set(file: &str, clients: Option<&str>) -> Option<Set> {
        let files =
            vec![CertificateFiles { certificate: file.into(), key: "key".into(), stand_in: Vec::new() }];
        Some(Set { files, clients: clients.map(|path| (path.into(), ClientCertificate::Required)) })
    }

    /// What each site has after a reload of sites with one host each.
    fn reload(numbers: &mut Numbers, sites: &[(&str, Option<Set>)]) -> Vec<Option<SiteCertificates>> {
        let hosts: Vec<_> = sites.iter().map(|(host, _)| [HostName::Exact(host.as_bytes().into())]).collect();
        let sites: Vec<SiteSet<'_>> =
            hosts.iter().zip(sites).map(|(hosts, (_, set))| (&hosts[..], set.clone())).collect();
        let (next, of_sites) = numbers.next(&sites);
        *numbers = next;
        of_sites
    }

    /// Whether a client that was shown the first ones may ask for a site with the second ones.
    fn goes_on(shown: &Option<SiteCertificates>, site: &Option<SiteCertificates>) -> bool {
        let shown = shown.as_ref().expect("it had certificates").present;
        site.as_ref().is_some_and(|site| site.include(shown))
    }

    #[test]
    fn a_connection_goes_on_through_changes_of_its_sites_certificate() {
        let mut numbers = Numbers::default();
        let first = reload(&mut numbers, &[(A, set("one", None)), (B, set("two", None))]);
        let again = reload(&mut numbers, &[(B, set("two", None)), (A, set("one", None))]);
        assert_eq!(again, [first[1].clone(), first[0].clone()]);
        let mut last = first.clone();
        for file in ["three", "one", "four"] {
            last = reload(&mut numbers, &[(A, set(file, None)), (B, set("two", None))]);
            assert!(goes_on(&first[0], &last[0]) && !goes_on(&first[0], &last[1]), "{file}");
            assert!(goes_on(&first[1], &last[1]) && !goes_on(&first[1], &last[0]), "{file}");
        }
        reload(&mut numbers, &[(B, set("two", None))]);
        let later = reload(&mut numbers, &[(A, set("four", None)), (B, set("two", None))]);
        assert!(!goes_on(&last[0], &later[0]), "no number is given twice");
    }

    #[test]
    fn sites_that_part_go_on_and_their_later_clients_are_apart() {
        let mut numbers = Numbers::default();
        let first = reload(&mut numbers, &[(A, set("one", None)), (B, set("one", None))]);
        assert_eq!(first[0], first[1]);
        let parted = reload(&mut numbers, &[(A, set("two", None)), (B, set("one", None))]);
        assert!(goes_on(&first[0], &parted[0]) && goes_on(&first[1], &parted[1]));
        assert!(!goes_on(&parted[0], &parted[1]) && !goes_on(&parted[1], &parted[0]));
    }

    #[test]
    fn no_connection_goes_on_if_the_rules_for_its_clients_certificates_change() {
        let mut numbers = Numbers::default();
        let first = reload(&mut numbers, &[(A, set("one", None)), (B, set("one", None))]);
        let asked = reload(&mut numbers, &[(A, set("one", Some("ca"))), (B, set("one", None))]);
        assert!(!goes_on(&first[0], &asked[0]) && goes_on(&first[1], &asked[1]));
        let back = reload(&mut numbers, &[(A, set("one", None)), (B, set("one", None))]);
        assert!(!goes_on(&asked[0], &back[0]));
    }

    #[test]
    fn the_earlier_numbers_of_a_site_are_bounded() {
        let mut numbers = Numbers::default();
        let mut last = Vec::new();
        for number in 0..EARLIER_MAX + 10 {
            last = reload(&mut numbers, &[(A, set(&number.to_string(), None))]);
        }
        assert_eq!(last[0].as_ref().expect("it has certificates").earlier.len(), EARLIER_MAX);
    }
}
