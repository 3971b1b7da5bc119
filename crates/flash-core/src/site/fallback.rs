//! The fallback: what answers for paths without a file. A front controller is one, and so is the page of a single-page
//! application. When a request needs it is known to [`Site::fallback_for`](crate::Site::fallback_for); how it is found is
//! the look-up's business.

use flash_http::head::RequestHead;
use flash_http::{negotiate, percent};

use crate::file::entry::Resource;
use crate::path::SitePath;
use crate::site::path_rules::PathRules;

/// A file or program of the site that answers for other paths.
#[derive(Clone, Debug)]
pub struct Fallback {
    /// `None`: the [route of what no file answers](super::routes::RouteMatch::Rest).
    path: Option<SitePath<'static>>,
    /// The path as a request would write it.
    raw_path: Box<[u8]>,
    answers: Answers,
    /// Paths that it never answers, such as those of backups.
    except: PathRules,
    /// `/~name/` is a user's folder, which is a site of its own.
    user_dirs: bool,
}

/// The requests that a fallback answers, of those whose paths lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// All, as with nginx's `try_files`.
    All,
    /// Those for pages. A name with a dot is a page's only if the client asks for HTML. An HTML page in place of a missing
    /// image or script would hide the mistake.
    Pages,
}

impl Fallback {
    pub fn new(path: SitePath<'_>, answers: Answers) -> Self {
        let mut raw_path = Vec::new();
        percent::encode_path(path.as_bytes(), &mut raw_path);
        let (path, raw_path) = (Some(path.into_owned()), raw_path.into());
        Self { path, raw_path, answers, except: PathRules::default(), user_dirs: false }
    }

    /// The route of what no file answers.
    pub fn of_route() -> Self {
        let (except, raw_path) = (PathRules::default(), Box::default());
        Self { path: None, raw_path, answers: Answers::All, except, user_dirs: false }
    }

    /// Its path. `None` if it is a route.
    pub(crate) fn path(&self) -> Option<&SitePath<'static>> {
        self.path.as_ref()
    }

    /// The same, but it never answers these paths.
    #[must_use]
    pub fn except(self, except: PathRules) -> Self {
        Self { except, ..self }
    }

    /// The same, but if `user_dirs` is set, it answers no path in a user's folder.
    #[must_use]
    pub fn spares_users(self, user_dirs: bool) -> Self {
        Self { user_dirs, ..self }
    }

    /// The same, as a request would write it.
    pub(crate) fn raw_path(&self) -> Option<&[u8]> {
        self.path.as_ref().map(|_| &*self.raw_path)
    }

    /// Whether it may answer this path, if the path leads nowhere.
    pub(crate) fn covers(&self, path: &SitePath<'_>) -> bool {
        let is_users = self.user_dirs && path.as_bytes().starts_with(b"/~");
        !is_users && !self.except.cover(path)
    }

    /// Whether the client's Accept decides what a path without a file leads to.
    pub(crate) fn reads_accept(&self, path: &SitePath<'_>) -> bool {
        self.answers == Answers::Pages && path.name().contains(&b'.') && self.covers(path)
    }

    /// Whether it answers this request for a path that it covers.
    pub(crate) fn answers(
        &self,
        head: &RequestHead<'_>,
        path: &SitePath<'_>,
        found: &Resource,
        lists: bool,
    ) -> bool {
        match found {
            Resource::Missing => match self.answers {
                Answers::All => true,
                Answers::Pages => !path.name().contains(&b'.') || negotiate::asks_for_html(head.fields),
            },
            Resource::Folder => !lists,
            // A client that was redirected would not send its body again.
            Resource::FolderWithoutSlash => self.answers == Answers::All && !head.method.is_retrieval(),
            Resource::File(_) | Resource::Script(_) | Resource::Forbidden(_) => false,
        }
    }
}
