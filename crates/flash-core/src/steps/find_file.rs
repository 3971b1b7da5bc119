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
}

/// A search under way, from its request's complete head on.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) lookup: Lookup,
    pub(crate) started_us: u64,
    pub(crate) spent: Spent,
}

#[derive(Debug)]
pub(crate) enum Lookup {
    Wanted(Find),
    Asked,
    Found(Arc<Entry>),
    Failed(Failure),
}

impl Finding {
    pub(crate) fn new(find: Find, now: &Now) -> Self {
        Self { lookup: Lookup::Wanted(find), started_us: now.us, spent: Spent::default() }
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
    if !site.settings.dotfiles && path.is_hidden() {
        return Found::Refused(Status::NOT_FOUND);
    }
    match site.paths.get(&path) {
        None => Found::Unknown(Find { path: path.into_owned(), known: None, asked_ms: now.ms() }),
        Some(entry) if entry.claim_check(now.ms(), site.settings.revalidate_ms) => {
            Found::Unknown(Find { path: path.into_owned(), known: Some(entry), asked_ms: now.ms() })
        }
        Some(entry) => {
            local.offer(raw_path, &entry, now.ms(), entry.checked_ms() + site.settings.revalidate_ms);
            Found::Entry(entry)
        }
    }
}
