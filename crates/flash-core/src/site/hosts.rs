//! The sites of a server, and which of them answers a host.
//!
//! A host is compared without case, port and trailing dot. An exact name wins over `*.example.org`, of which the longest
//! wins, and that over `*`. A look-up does not allocate. With a single site for all hosts it costs nothing.
//!
//! A server may have many sites that are hardly ever asked for. So each can be made for its first request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use flash_http::head::RequestHead;
use hashbrown::DefaultHashBuilder;

use crate::path::SitePath;
use crate::site::id::SiteId;
use crate::site::root::Generation;
use crate::site::routes::Routes;
use crate::site::{Site, SiteSettings};

/// A name of a site, in lower case and without port and trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostName {
    Exact(Box<[u8]>),
    /// All names below this one: `example.org` stands for `*.example.org`.
    Below(Box<[u8]>),
    /// `*`: hosts that no other name covers.
    Any,
}

impl HostName {
    /// Whether it stands for this host, as a request names it.
    pub fn covers(&self, host: &[u8]) -> bool {
        let name = bare(host);
        match self {
            Self::Exact(own) => name.eq_ignore_ascii_case(own),
            Self::Below(parent) => {
                let split = name.len().checked_sub(parent.len() + 1).filter(|first| *first > 0);
                split.is_some_and(|dot| name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(parent))
            }
            Self::Any => true,
        }
    }
}

/// As the configuration names it.
impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(&String::from_utf8_lossy(name)),
            Self::Below(name) => write!(f, "*.{}", String::from_utf8_lossy(name)),
            Self::Any => f.write_str("*"),
        }
    }
}

#[derive(Debug)]
pub struct Hosts {
    /// In the order in which they were given.
    sites: Box<[OnceLock<Arc<Site>>]>,
    /// Makes a site for its first request.
    make: Option<Make>,
    views: Views,
    /// Whether any site or place lists folders.
    lists: bool,
    /// The names of sites, with their positions.
    exact: HashMap<Box<[u8]>, u32, DefaultHashBuilder>,
    below: HashMap<Box<[u8]>, u32, DefaultHashBuilder>,
    any: Option<u32>,
    /// What answers a host that no site has: errors without a site's fields and pages.
    nowhere: Arc<Site>,
}

/// What all sites and places with the same number have in common.
#[derive(Clone, Debug)]
pub struct View {
    pub id: SiteId,
    pub generation: Arc<Generation>,
    pub routes: Option<Arc<Routes>>,
}

/// Each number that a site or a place has, with what belongs to it.
#[derive(Debug)]
pub struct Views(Box<[View]>);

/// Makes the site of this position.
struct Make(Box<MakeSite>);

type MakeSite = dyn Fn(usize, &Views) -> Site + Send + Sync;

impl Views {
    fn new(mut views: Vec<View>) -> Self {
        views.sort_by_key(|view| view.id);
        views.dedup_by_key(|view| view.id);
        Self(views.into())
    }

    pub fn get(&self, id: SiteId) -> Option<&View> {
        let found = self.0.binary_search_by_key(&id, |view| view.id).ok()?;
        Some(&self.0[found])
    }
}

impl fmt::Debug for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Make")
    }
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
        let (sites, names): (Vec<_>, Vec<_>) =
            sites.into_iter().map(|(site, names)| (Arc::new(site), names)).unzip();
        let rules = || sites.iter().flat_map(Site::with_places);
        let view = |site: &Arc<Site>| {
            let (generation, routes) = (Arc::clone(&site.generation), site.routes.clone());
            View { id: site.id, generation, routes }
        };
        let (views, lists) = (rules().map(view).collect(), rules().any(|site| site.settings.list));
        let hosts = Self::named(names.iter().map(|names| &names[..]), views, lists);
        let sites = sites.into_iter().map(OnceLock::from).collect();
        Self { sites, ..hosts }
    }

    /// Sites that `make` makes for their first requests, by their positions. Of all sites and places, `views` has what belongs to
    /// their numbers. `lists` says whether any of them lists folders.
    pub fn on_demand<'n>(
        names: impl Iterator<Item = &'n [HostName]>,
        views: Vec<View>,
        lists: bool,
        make: impl Fn(usize, &Views) -> Site + Send + Sync + 'static,
    ) -> Self {
        Self { make: Some(Make(Box::new(make))), ..Self::named(names, views, lists) }
    }

    /// The same, where requests that belong to no site have these settings.
    #[must_use]
    pub fn nowhere_has(self, settings: SiteSettings) -> Self {
        Self { nowhere: Arc::new(Site { settings: settings.into(), ..Site::default() }), ..self }
    }

    /// Sites without anything but their names.
    fn named<'n>(names: impl Iterator<Item = &'n [HostName]>, views: Vec<View>, lists: bool) -> Self {
        let mut hosts = Self {
            sites: Box::default(),
            make: None,
            views: Views::new(views),
            lists,
            exact: HashMap::default(),
            below: HashMap::default(),
            any: None,
            nowhere: Arc::new(Site::default()),
        };
        let mut count = 0;
        for (position, names) in (0..).zip(names) {
            count += 1;
            for name in names {
                match name {
                    HostName::Exact(name) => _ = hosts.exact.insert(name.clone(), position),
                    HostName::Below(name) => _ = hosts.below.insert(name.clone(), position),
                    HostName::Any => hosts.any = Some(position),
                }
            }
        }
        hosts.sites = (0..count).map(|_| OnceLock::new()).collect();
        hosts
    }

    /// The sites that exchanges hold. The last reference to a site should not go in a loop, which would free it.
    pub fn held(&self) -> Vec<Arc<Site>> {
        let made = self.sites.iter().filter_map(OnceLock::get).chain([&self.nowhere]);
        made.filter(|site| Arc::strong_count(site) > 1).map(Arc::clone).collect()
    }

    /// The generation of all sites and places with this number.
    pub fn generation(&self, id: SiteId) -> Option<u64> {
        self.views.get(id).map(|view| view.generation.get())
    }

    /// The routes of all sites and places with this number.
    pub fn routes(&self, id: SiteId) -> Option<&Arc<Routes>> {
        self.views.get(id)?.routes.as_ref()
    }

    /// Whether any site or place lists folders.
    pub fn lists(&self) -> bool {
        self.lists
    }

    /// The site of this position, which is made if it is not yet.
    #[inline]
    fn site(&self, position: u32) -> Option<&Arc<Site>> {
        let site = self.sites.get(position as usize)?;
        site.get().or_else(|| self.make(position as usize, site))
    }

    #[cold]
    fn make<'s>(&self, position: usize, site: &'s OnceLock<Arc<Site>>) -> Option<&'s Arc<Site>> {
        let made = (self.make.as_ref()?.0)(position, &self.views);
        // Another thread may have been faster. No thread waits while a site is made.
        let _ = site.set(Arc::new(made));
        site.get()
    }

    /// What answers this request: the site of its host, or a place in it.
    pub fn answering(&self, head: &RequestHead<'_>) -> Option<&Arc<Site>> {
        self.find(head.host).map(|site| site.of_target(head.target).0)
    }

    /// The site that answers this host, as a request names it.
    #[inline]
    pub fn find(&self, host: Option<&[u8]>) -> Option<&Arc<Site>> {
        self.site(self.position_of(host)?)
    }

    /// The position of that site.
    #[inline]
    pub fn position_of(&self, host: Option<&[u8]>) -> Option<u32> {
        if self.exact.is_empty() && self.below.is_empty() {
            return self.any;
        }
        host.and_then(|host| self.find_name(host)).or(self.any)
    }

    /// The position of the site that answers this request, and that of the place in it. For explanations: it takes its time.
    pub fn position(&self, head: &RequestHead<'_>) -> Option<(usize, Option<usize>)> {
        let position = self.position_of(head.host)?;
        let path = SitePath::parse(head.target.raw_path()).ok();
        let place = path.and_then(|path| self.site(position)?.position_of(&path));
        Some((position as usize, place))
    }

    /// A host for each number of a site or a place. Sites that no request has asked for are left out.
    pub fn names(&self) -> HashMap<SiteId, Vec<u8>> {
        let exact = self.exact.iter().map(|(name, at)| (HostName::Exact(name.clone()), *at));
        let below = self.below.iter().map(|(name, at)| (HostName::Below(name.clone()), *at));
        let all = exact.chain(below).chain(self.any.map(|at| (HostName::Any, at)));
        let made = |at: u32| self.sites.get(at as usize).and_then(OnceLock::get);
        let of_site = |(name, at): (HostName, u32)| {
            made(at).into_iter().flat_map(move |site| {
                let name = name.to_string().into_bytes();
                site.with_places().map(move |place| (place.id, name.clone()))
            })
        };
        all.flat_map(of_site).collect()
    }

    /// What answers a request of which no host is known, and one whose host no site has.
    pub fn unnamed(&self) -> &Arc<Site> {
        self.any().unwrap_or(&self.nowhere)
    }

    fn any(&self) -> Option<&Arc<Site>> {
        self.site(self.any?)
    }

    fn find_name(&self, host: &[u8]) -> Option<u32> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let name = bare(host);
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let name = &*lower;
        let parents =
            || name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(dot, _)| &name[dot + 1..]);
        self.exact.get(name).or_else(|| parents().find_map(|parent| self.below.get(parent))).copied()
    }
}

/// A host without its port and trailing dot.
pub fn bare(host: &[u8]) -> &[u8] {
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
        self.sites[0].get_mut().and_then(Arc::get_mut).expect("no exchange holds it")
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
    fn a_name_covers_hosts_in_any_case_with_any_port() {
        let (exact, below) = (HostName::Exact((*b"a.example").into()), HostName::Below((*b"example").into()));
        for host in ["a.example", "A.Example:80", "a.example."] {
            assert!(exact.covers(host.as_bytes()) && below.covers(host.as_bytes()), "{host}");
        }
        for host in ["b.a.example", "xa.example", "a.example.org"] {
            assert!(!exact.covers(host.as_bytes()), "{host}");
        }
        for host in ["example", ".example", "xexample", "", "a.example.org"] {
            assert!(!below.covers(host.as_bytes()), "{host}");
        }
        assert!(HostName::Any.covers(b"anything"));
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
    fn a_site_is_made_once_for_its_first_request() {
        let names = ["a", "b"].map(|name| [HostName::Exact(name.as_bytes().into())]);
        let view = |id| View { id: SiteId(id), generation: Arc::default(), routes: None };
        let made = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&made);
        let make = move |position: usize, views: &Views| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let id = SiteId(7 - position as u32);
            let view = views.get(id).expect("it was given");
            Site { id, generation: Arc::clone(&view.generation), ..Site::default() }
        };
        let hosts =
            Hosts::on_demand(names.iter().map(|names| &names[..]), vec![view(7), view(6)], true, make);
        let made = || made.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!((made(), hosts.lists(), hosts.generation(SiteId(6))), (0, true, Some(0)));
        for _ in 0..3 {
            assert_eq!((find(&hosts, "b"), find(&hosts, "c"), made()), (Some(6), None, 1));
        }
        assert_eq!((find(&hosts, "a"), made()), (Some(7), 2));
    }

    #[test]
    fn a_site_that_an_exchange_holds_outlives_its_configuration_where_it_is_wanted() {
        let hosts = hosts(&[&["a"], &["b"]]);
        let exchange = Arc::clone(hosts.find(Some(b"b")).unwrap());
        let held = hosts.held();
        drop(hosts);
        assert!(held.len() == 1 && Arc::ptr_eq(&held[0], &exchange));
        drop(exchange);
        assert_eq!(Arc::strong_count(&held[0]), 1, "it is freed where it is held");
    }

    #[test]
    fn one_site_answers_every_host() {
        let hosts = Hosts::one(Site::default());
        for host in [None, Some(&b"a"[..]), Some(b"")] {
            assert_eq!(hosts.find(host).map(|site| site.id), Some(SiteId(0)));
        }
    }
}
