//! Find file: from a request target to an entry, by the pathname cache or by a job.

use std::sync::Arc;

use flash_http::status::Status;

use crate::clock::Now;
use crate::entry::Entry;
use crate::job::{Done, Failure, Find, Spent};
use crate::local::LocalCache;
use crate::path::{PathError, SitePath};
use crate::site::Site;

pub(crate) enum Found {
    Entry(Arc<Entry>),
    /// Not known, or not looked at for a while.
    Unknown(Find),
    Refused(Status),
    /// Below a prefix where programs answer whatever is asked.
    Program,
}

/// A search under way, from its request's complete head on.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) lookup: Lookup,
    pub(crate) started_us: u64,
    pub(crate) spent: Spent,
    /// The request's body has not been read, because a program may be found.
    pub(crate) body_waits: bool,
    /// How many programs have sent the request on to here.
    pub(crate) redirects: u8,
}

#[derive(Debug)]
pub(crate) enum Lookup {
    Wanted(Find),
    Asked,
    Found(Arc<Entry>),
    Failed(Failure),
}

impl Finding {
    pub(crate) fn new(find: Find, body_waits: bool, redirects: u8, now: &Now) -> Self {
        let (started_us, spent) = (now.us, Spent::default());
        Self { lookup: Lookup::Wanted(find), started_us, spent, body_waits, redirects }
    }

    /// The job. Once.
    pub(crate) fn ask(&mut self) -> Option<Find> {
        if !matches!(self.lookup, Lookup::Wanted(_)) {
            return None;
        }
        match std::mem::replace(&mut self.lookup, Lookup::Asked) {
            Lookup::Wanted(find) => Some(find),
            _ => None,
        }
    }

    pub(crate) fn take(&mut self, done: Done, spent: Spent) {
        self.spent = spent;
        self.lookup = match done {
            Done::Found(entry) => Lookup::Found(entry),
            Done::Failed(failure) => Lookup::Failed(failure),
            Done::Window(_) | Done::Listed(_) => Lookup::Failed(Failure::Broken),
        };
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lookup, Lookup::Found(_) | Lookup::Failed(_))
    }
}

pub(crate) fn find_file(raw_path: &[u8], site: &Site, local: &mut LocalCache, now: &Now) -> Found {
    if let Some(entry) = local.get(raw_path, now.ms()) {
        return Found::Entry(entry);
    }
    let path = match SitePath::parse(raw_path) {
        Ok(path) => path,
        Err(PathError::Malformed) => return Found::Refused(Status::BAD_REQUEST),
        Err(PathError::Unnameable) => return Found::Refused(Status::NOT_FOUND),
    };
    if site.routes.as_ref().is_some_and(|routes| routes.holds(&path)) {
        // What is hidden in an application's own names, it alone can say.
        return Found::Program;
    }
    if !site.settings.dotfiles && path.is_hidden() {
        return Found::Refused(Status::NOT_FOUND);
    }
    let known = match site.settings.finds_apart {
        false => search(&path, raw_path, site, local, now),
        true => Err(None),
    };
    match known {
        Ok(entry) => Found::Entry(entry),
        Err(known) => Found::Unknown(Find { path: path.into_owned(), known, asked_ms: now.ms() }),
    }
}

impl Site {
    /// For those who find files apart. If the caches have no answer that may serve, somebody has to look at the disk;
    /// what stood there before comes back, if it is known.
    pub fn look_up(
        &self,
        path: &SitePath<'_>,
        local: &mut LocalCache,
        now: &Now,
    ) -> Result<Arc<Entry>, Option<Arc<Entry>>> {
        local
            .get(path.as_bytes(), now.ms())
            .map_or_else(|| search(path, path.as_bytes(), self, local, now), Ok)
    }
}

/// In the cache that all share; what is found there is offered to the runner's own, under the words it was asked in.
fn search(
    path: &SitePath<'_>,
    asked: &[u8],
    site: &Site,
    local: &mut LocalCache,
    now: &Now,
) -> Result<Arc<Entry>, Option<Arc<Entry>>> {
    match site.paths.get(path) {
        None => Err(None),
        Some(entry) if entry.claim_check(now.ms(), site.settings.revalidate_ms) => Err(Some(entry)),
        Some(entry) => {
            local.offer(asked, &entry, now.ms(), entry.checked_ms() + site.settings.revalidate_ms);
            Ok(entry)
        }
    }
}
