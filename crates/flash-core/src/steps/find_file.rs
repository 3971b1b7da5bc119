//! Find file: from a request target to an entry, by the pathname cache or by a job.

use std::sync::Arc;

use flash_http::status::Status;

use crate::clock::Now;
use crate::entry::Entry;
use crate::job::Find;
use crate::path::{PathError, SitePath};
use crate::site::Site;

pub(crate) enum Found {
    Entry(Arc<Entry>),
    /// Not known, or not looked at for a while.
    Unknown(Find),
    Refused(Status),
}

pub(crate) fn find_file(raw_path: &[u8], site: &Site, now: &Now) -> Found {
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
        Some(entry) => Found::Entry(entry),
    }
}
