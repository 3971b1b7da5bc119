//! The sites of a server, and which of them answers a host.
//!
//! A host is compared without case, port and trailing dot. An exact name wins over `*.example.org`, of which the longest
//! wins, and that over `*`. A look-up does not allocate. With a single site for all hosts it costs nothing.

use std::collections::HashMap;
use std::sync::Arc;

use flash_http::head::RequestHead;
use hashbrown::DefaultHashBuilder;

use crate::root::Generation;
use crate::routes::Routes;
use crate::site::Site;
use crate::site_id::SiteId;

/// A name of a site, in lower case and without port and trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostName {
    Exact(Box<[u8]>),
    /// All names below this one: `example.org` stands for `*.example.org`.
    Below(Box<[u8]>),
    /// `*`: hosts that no other name covers.
    Any,
}

#[derive(Debug)]
pub struct Hosts {
    /// In the order in which they were given.
    sites: Vec<Arc<Site>>,
    /// In the order of their numbers.
    by_id: Vec<(SiteId, OfId)>,
    /// The names of sites, with their positions.
    exact: HashMap<Box<[u8]>, u32, DefaultHashBuilder>,
    below: HashMap<Box<[u8]>, u32, DefaultHashBuilder>,
    any: Option<u32>,
    /// What answers a host that no site has: errors without a site's fields and pages.
    nowhere: Arc<Site>,
}

/// What all sites and places with the same number have in common.
#[derive(Debug)]
struct OfId {
    generation: Arc<Generation>,
    routes: Option<Arc<Routes>>,
}

/// The longest name of a host (RFC 1035 §2.3.4), and its trailing dot.
const HOST_BYTES_MAX: usize = 254;

impl Hosts {
    /// One site for all hosts.
    pub fn one(site: Site) -> Self {
        Self::new(vec![(site, vec![HostName::Any])])
    }

    /// Sites with their names. Sites and places with the same number have the same generation and the same routes.
    pub fn new(sites: Vec<(Site, Vec<HostName>)>) -> Self {
        let mut hosts = Self {
            sites: Vec::with_capacity(sites.len()),
            by_id: Vec::with_capacity(sites.len()),
            exact: HashMap::default(),
            below: HashMap::default(),
            any: None,
            nowhere: Arc::new(Site::default()),
        };
        for (site, names) in sites {
            let (site, position) = (Arc::new(site), hosts.sites.len() as u32);
            for name in names {
                match name {
                    HostName::Exact(name) => _ = hosts.exact.insert(name, position),
                    HostName::Below(name) => _ = hosts.below.insert(name, position),
                    HostName::Any => hosts.any = Some(position),
                }
            }
            let of_id = |site: &Arc<Site>| {
                let (generation, routes) = (Arc::clone(&site.generation), site.routes.clone());
                (site.id, OfId { generation, routes })
            };
            hosts.by_id.extend(site.with_places().map(of_id));
            hosts.sites.push(site);
        }
        hosts.by_id.sort_by_key(|(id, _)| *id);
        hosts.by_id.dedup_by_key(|(id, _)| *id);
        hosts
    }

    /// The generation of all sites and places with this number.
    pub fn generation(&self, id: SiteId) -> Option<u64> {
        self.of_id(id).map(|of| of.generation.get())
    }

    /// The routes of all sites and places with this number.
    pub fn routes(&self, id: SiteId) -> Option<&Arc<Routes>> {
        self.of_id(id)?.routes.as_ref()
    }

    fn of_id(&self, id: SiteId) -> Option<&OfId> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.by_id[found].1)
    }

    /// All sites and their places.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.sites.iter().flat_map(Site::with_places)
    }

    /// What answers this request: the site of its host, or a place in it.
    #[inline]
    pub fn answering(&self, head: &RequestHead<'_>) -> Option<&Arc<Site>> {
        self.find(head.host).map(|site| site.at(head.target))
    }

    /// The site that answers this host, as a request names it.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<&Arc<Site>> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.any();
        }
        host.and_then(|host| self.find_name(host)).or_else(|| self.any())
    }

    /// The position of the site that answers this request, and that of the place in it. For explanations: it takes its time.
    pub fn position(&self, head: &RequestHead<'_>) -> Option<(usize, Option<usize>)> {
        let of_host = self.find(head.host)?;
        let answering = of_host.at(head.target);
        let site = self.sites.iter().position(|site| Arc::ptr_eq(site, of_host))?;
        let place = of_host.with_places().position(|place| Arc::ptr_eq(place, answering))?;
        Some((site, place.checked_sub(1)))
    }

    /// What answers a request of which no host is known, and one whose host no site has.
    pub fn unnamed(&self) -> &Arc<Site> {
        self.any().unwrap_or(&self.nowhere)
    }

    fn any(&self) -> Option<&Arc<Site>> {
        self.any.and_then(|position| self.sites.get(position as usize))
    }

    fn find_name(&self, host: &[u8]) -> Option<&Arc<Site>> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let name = bare(host);
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let name = &*lower;
        let parents =
            || name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(dot, _)| &name[dot + 1..]);
        let position =
            self.exact.get(name).or_else(|| parents().find_map(|parent| self.below.get(parent)))?;
        self.sites.get(*position as usize)
    }
}

/// A host without its port and trailing dot.
pub(crate) fn bare(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|&byte| byte == b']').map_or(host.len(), |bracket| bracket + 1),
        _ => host.iter().position(|&byte| byte == b':').unwrap_or(host.len()),
    };
    let name = &host[..end];
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
impl Hosts {
    /// The only site, which no exchange holds.
    pub(crate) fn only_mut(&mut self) -> &mut Site {
        Arc::get_mut(&mut self.sites[0]).expect("no exchange holds it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&[&str]]) -> Hosts {
        let name = |text: &&str| match text.strip_prefix('*') {
            Some("") => HostName::Any,
            Some(rest) => HostName::Below(rest.as_bytes()[1..].into()),
            None => HostName::Exact(text.as_bytes().into()),
        };
        let sites = (0..).zip(names).map(|(number, names)| {
            let site = Site { id: SiteId(number), ..Site::default() };
            (site, names.iter().map(name).collect())
        });
        Hosts::new(sites.collect())
    }

    fn find(hosts: &Hosts, host: &str) -> Option<u32> {
        hosts.find(Some(host.as_bytes())).map(|site| site.id.0)
    }

    #[test]
    fn case_port_and_trailing_dot_make_no_difference() {
        let hosts = hosts(&[&["a.example", "b.example"], &["c.example"], &["[::1]", "127.0.0.1"]]);
        for (host, site) in [
            ("a.example", Some(0)),
            ("A.EXAMPLE", Some(0)),
            ("b.example:80", Some(0)),
            ("b.example.:8080", Some(0)),
            ("c.example.", Some(1)),
            ("[::1]:80", Some(2)),
            ("[::1]", Some(2)),
            ("127.0.0.1:8080", Some(2)),
            ("d.example", None),
            ("x.a.example", None),
            ("a.example..", None),
            ("", None),
            (".", None),
            ("[::1", None),
            (&"a".repeat(300), None),
        ] {
            assert_eq!(find(&hosts, host), site, "{host}");
        }
        assert!(hosts.find(None).is_none(), "HTTP/1.0 may name no host");
        assert_eq!(hosts.unnamed().settings.body_bytes_max, Site::default().settings.body_bytes_max);
    }

    #[test]
    fn an_exact_name_wins_then_the_longest_parent_then_all() {
        let hosts =
            hosts(&[&["*"], &["*.example.org"], &["*.b.example.org"], &["a.example.org", "example.org"]]);
        for (host, site) in [
            ("a.example.org", 3),
            ("example.org", 3),
            ("c.example.org", 1),
            ("x.a.example.org", 1),
            ("b.example.org", 1),
            ("x.y.b.example.org", 2),
            ("example.com", 0),
            ("badexample.org", 0),
        ] {
            assert_eq!(find(&hosts, host), Some(site), "{host}");
        }
        assert_eq!(hosts.find(None).map(|site| site.id.0), Some(0));
    }

    #[test]
    fn one_site_answers_every_host() {
        let hosts = Hosts::one(Site::default());
        for host in [None, Some(&b"a"[..]), Some(b"")] {
            assert_eq!(hosts.find(host).map(|site| site.id), Some(SiteId(0)));
        }
    }
}
