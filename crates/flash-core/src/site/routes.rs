//! Routes: the parts of a site's names that upstreams answer.
//!
//! A name below a [`RouteMatch::Prefix`] never reaches the pathname cache or the disk. A name with a [`RouteMatch::Suffix`]
//! is looked up like a file, because the script has to exist.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use flash_cgi::Server;
use flash_cgi::script::{self, Split};

use crate::cache::memory_budget::Budget;
use crate::path::SitePath;
use crate::site::path_rules::PathRules;
use crate::site::proxy_rules::ProxyRules;
use crate::upstream::{UpstreamProtocol, Upstreams};

/// All routes, and what every program is told about the server.
#[derive(Debug)]
pub struct Routes {
    list: Vec<Route>,
    /// Paths that no program answers.
    except: PathRules,
    /// What the paths of scripts begin with that their names below the folder do not, with its slash.
    strip_prefix: Box<[u8]>,
    software: Box<[u8]>,
    place: ArcSwap<ProgramSite>,
    /// Memory for responses that clients have not received, and for request bodies that are not whole.
    pub(crate) answers: Arc<Budget>,
    /// The room on the disk for responses that clients have not received.
    pub(crate) spool: Arc<Budget>,
    /// What FastCGI servers are told besides, or in place of, the variables of the request.
    pub(crate) params: Arc<[Param]>,
    /// What opens the upstreams. A request that began before a reload opens those of its own configuration.
    pub(crate) upstreams: Option<Arc<dyn Upstreams>>,
}

/// A name, and its value.
pub type Param = (Box<[u8]>, Box<[u8]>);

/// Where the site is, as programs are told.
#[derive(Debug)]
pub(crate) struct ProgramSite {
    pub(crate) server: Server,
    pub(crate) document_root: Box<[u8]>,
}

impl ProgramSite {
    fn new(software: &[u8], document_root: &[u8]) -> Self {
        Self { server: Server::new(software, document_root), document_root: document_root.into() }
    }
}

#[derive(Clone, Debug)]
pub struct Route {
    pub matches: RouteMatch,
    pub protocol: UpstreamProtocol,
    /// Whether a program may write straight to the client.
    pub direct: bool,
    /// The route's number in [`Upstreams`](crate::upstream::Upstreams).
    pub number: usize,
    /// Of a route to HTTP servers.
    pub proxy: Option<Arc<ProxyRules>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteMatch {
    /// `/cgi-bin`, and everything below. `/` is the whole site.
    Prefix(Box<[u8]>),
    /// `.php`: files with this suffix, and the path after them, as in `/a.php/more`.
    Suffix(Box<[u8]>),
    /// Whatever no file answers: the route of the site's fallback.
    Rest,
}

/// A path and its route. The path is split after its script, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'r, 'p> {
    pub(crate) route: &'r Route,
    pub(crate) split: Split<'p>,
}

impl Routes {
    /// Programs are told `software` and `document_root`, an absolute path without a slash at its end. `answers` is the memory for
    /// responses that clients have not received, and for request bodies that are not whole.
    pub fn new(mut list: Vec<Route>, software: &[u8], document_root: &[u8], answers: Arc<Budget>) -> Self {
        // The longest prefix wins. Suffixes do not count below a prefix.
        list.sort_by_key(|route| match &route.matches {
            RouteMatch::Prefix(prefix) => std::cmp::Reverse(1 + prefix.len()),
            RouteMatch::Suffix(_) | RouteMatch::Rest => std::cmp::Reverse(0),
        });
        let place = ArcSwap::from_pointee(ProgramSite::new(software, document_root));
        let (except, strip_prefix, software) = (PathRules::default(), Box::default(), software.into());
        let spool = Budget::new(0);
        let params = Arc::default();
        Self { list, except, strip_prefix, software, place, answers, spool, params, upstreams: None }
    }

    /// The same, with this room on the disk for responses that clients have not received.
    #[must_use]
    pub fn spooled(self, spool: Arc<Budget>) -> Self {
        Self { spool, ..self }
    }

    /// The same, with these parameters of FastCGI.
    #[must_use]
    pub fn telling(self, params: Arc<[Param]>) -> Self {
        Self { params, ..self }
    }

    /// The same, opened by these upstreams.
    #[must_use]
    pub fn opened_by(self, upstreams: Arc<dyn Upstreams>) -> Self {
        Self { upstreams: Some(upstreams), ..self }
    }

    /// Whether names lead to programs without a look at the disk.
    pub fn have_prefixes(&self) -> bool {
        self.list.iter().any(|route| matches!(route.matches, RouteMatch::Prefix(_)))
    }

    /// Tells programs from now on that the site is in this folder.
    pub fn set_document_root(&self, document_root: &[u8]) {
        self.place.store(Arc::new(ProgramSite::new(&self.software, document_root)));
    }

    pub(crate) fn place(&self) -> Guard<Arc<ProgramSite>> {
        self.place.load()
    }

    /// The same, but no program answers these paths.
    #[must_use]
    pub fn except(self, except: PathRules) -> Self {
        Self { except, ..self }
    }

    /// The same, but this is no part of the names of scripts: `/pma` if `/pma/a.php` is `a.php` in the folder.
    #[must_use]
    pub fn strip(self, prefix: &[u8]) -> Self {
        Self { strip_prefix: prefix.into(), ..self }
    }

    pub(crate) fn strip_prefix(&self) -> &[u8] {
        &self.strip_prefix
    }

    /// The name of a script below the folder, with the slash before it.
    pub(crate) fn file_of<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.strip_prefix(&*self.strip_prefix).filter(|name| name.starts_with(b"/")).unwrap_or(path)
    }

    pub(crate) fn of<'p>(&self, path: &'p SitePath<'_>) -> Option<Routed<'_, 'p>> {
        if self.except.cover(path) {
            return None;
        }
        self.list.iter().find_map(|route| {
            let split = match &route.matches {
                RouteMatch::Prefix(prefix) => script::below(path.as_bytes(), prefix),
                RouteMatch::Suffix(suffix) => script::suffixed(path.as_bytes(), suffix).next(),
                RouteMatch::Rest => None,
            };
            split.map(|split| Routed { route, split })
        })
    }

    /// The route of the program that answers this path.
    pub fn route_of(&self, path: &SitePath<'_>) -> Option<&Route> {
        self.of(path).map(|routed| routed.route)
    }

    /// Whether a route answers everything at this path.
    pub(crate) fn holds(&self, path: &SitePath<'_>) -> bool {
        self.of(path).is_some_and(|routed| matches!(routed.route.matches, RouteMatch::Prefix(_)))
    }

    /// The route of what no file answers.
    pub(crate) fn rest(&self) -> Option<&Route> {
        self.list.iter().find(|route| route.matches == RouteMatch::Rest)
    }

    /// The route of a file that is a script.
    pub(crate) fn of_script(&self, name: &[u8]) -> Option<&Route> {
        self.list.iter().find(|route| match &route.matches {
            RouteMatch::Prefix(_) | RouteMatch::Rest => false,
            RouteMatch::Suffix(suffix) => name.ends_with(suffix),
        })
    }

    /// Whether an upstream may answer this path. A folder's index may be a script.
    pub(crate) fn may_lead_to_program(&self, path: &SitePath<'_>) -> bool {
        self.of(path).is_some() || (path.names_folder() && self.has_suffixes())
    }

    /// Whether a folder's index may be a script.
    fn has_suffixes(&self) -> bool {
        self.list.iter().any(|route| matches!(route.matches, RouteMatch::Suffix(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::path_rules::PathRule;

    fn route(place: RouteMatch, number: usize) -> Route {
        Route { matches: place, protocol: UpstreamProtocol::Cgi, direct: false, number, proxy: None }
    }

    #[test]
    fn no_program_answers_an_excepted_path() {
        let list = vec![
            route(RouteMatch::Suffix(b".php".as_slice().into()), 0),
            route(RouteMatch::Prefix(b"/app".as_slice().into()), 1),
        ];
        let except = ["/uploads", "/app/files"].map(|rule| PathRule::parse(rule).unwrap());
        let routes =
            Routes::new(list, b"Flash", b"/srv", Budget::new(0)).except(except.into_iter().collect());
        for (path, answered) in [
            ("/a.php", true),
            ("/uploads/a.php", false),
            ("/uploads/a.php/more", false),
            ("/uploads2/a.php", true),
            ("/app/x", true),
            ("/app/files/x", false),
        ] {
            assert_eq!(routes.of(&SitePath::parse(path.as_bytes()).unwrap()).is_some(), answered, "{path}");
        }
    }

    #[test]
    fn the_longest_prefix_wins_and_then_a_suffix() {
        let prefix = |path: &str, number| route(RouteMatch::Prefix(path.as_bytes().into()), number);
        let list = vec![
            route(RouteMatch::Suffix(b".php".as_slice().into()), 0),
            prefix("/app", 1),
            prefix("/app/old", 2),
        ];
        let routes = Routes::new(list, b"Flash", b"/srv", Budget::new(0));
        for (path, expected) in [
            ("/app", Some((1, "/app", ""))),
            ("/app/x.php", Some((1, "/app", "/x.php"))),
            ("/app/old/x", Some((2, "/app/old", "/x"))),
            ("/apple", None),
            ("/a.php", Some((0, "/a.php", ""))),
            ("/d/a.php/x/y", Some((0, "/d/a.php", "/x/y"))),
            ("/a.phpx", None),
        ] {
            let parsed = SitePath::parse(path.as_bytes()).expect("they are canonical");
            let found = routes.of(&parsed).map(|routed| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (routed.route.number, text(routed.split.name), text(routed.split.info))
            });
            let expected = expected.map(|(number, name, info)| (number, name.to_owned(), info.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
    }
}
