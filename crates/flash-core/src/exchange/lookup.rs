//! Find file: from a request target to an entry, through the pathname cache or a job.

use std::sync::Arc;

use bytes::Bytes;
use flash_http::negotiate::CodingSet;
use flash_http::status::Status;

use crate::cache::local::LocalCache;
use crate::clock::Now;
use crate::connection::context::Context;
use crate::file::entry::{Entry, Freshness, STALE_AFTER};
use crate::job::{Done, Failure, Find, Job, List, Listed, Worth};
use crate::listing::{Listing, Order};
use crate::path::SitePath;
use crate::record::counters::Count;
use crate::server::Server;
use crate::site::Site;
use crate::site::id::SiteId;

pub(crate) enum Found {
    Entry(Arc<Entry>),
    /// The caches do not know the path, or their entry is too old.
    Unknown(Find),
    Refused(Status),
    /// The path lies below a prefix where a program answers.
    Program,
}

/// The look-up of a request, from its complete head on.
#[derive(Debug)]
pub(crate) struct FileLookup {
    pub(crate) state: Lookup,
    /// The listing's progress after its last step.
    progress: u64,
    pub(crate) purpose: Purpose,
    /// The look-ups of its request before this one.
    before: u8,
}

/// Look-ups of a request. A folder that is switched all the time would have it look again and again.
const LOOKUPS_MAX: u8 = 64;

/// What a look-up is for. All but the first follow a look-up of the target, and know the generation of its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What the request asks for.
    Target,
    /// The same in the root so far behind the first, because those before it lack the target.
    NextRoot(u64, u8),
    /// The file whose digest the target names, because the target leads nowhere, in the root so far behind the first.
    Digest(u64, u8),
    /// What answers instead, because the target leads nowhere.
    Fallback(u64),
    /// The site's page for missing names, because nothing answers.
    MissingPage(u64),
}

#[derive(Debug)]
pub(crate) enum Lookup {
    Wanted(Find),
    /// A folder was found. This is the first or the next step of its listing.
    ListWanted(List),
    Asked,
    Found(Arc<Entry>),
    /// The disk fails or does not answer. The response uses an old entry, and says its age.
    Stale(Arc<Entry>),
    /// A listing, and its first page.
    Listed(Arc<Listing>, Bytes),
    Failed(Failure),
}

/// Where a site's page for missing names is.
pub(crate) const MISSING_PAGE: &[u8] = b"/404.html";

impl FileLookup {
    pub(crate) fn of_file(find: Find) -> Self {
        Self::new(Lookup::Wanted(find), Purpose::Target)
    }

    /// Of a folder that was found for this purpose.
    pub(crate) fn of_listing(list: List, purpose: Purpose) -> Self {
        Self::new(Lookup::ListWanted(list), purpose)
    }

    /// For a target that the roots before this one lack.
    pub(crate) fn of_next_root(find: Find, generation: u64, behind: u8) -> Self {
        Self::new(Lookup::Wanted(find), Purpose::NextRoot(generation, behind))
    }

    pub(crate) fn of_digest(find: Find, generation: u64, behind: u8) -> Self {
        Self::new(Lookup::Wanted(find), Purpose::Digest(generation, behind))
    }

    pub(crate) fn of_fallback(find: Find, generation: u64) -> Self {
        Self::new(Lookup::Wanted(find), Purpose::Fallback(generation))
    }

    /// For the page that says of something else that it is missing.
    pub(crate) fn of_page(find: Find, generation: u64) -> Self {
        Self::new(Lookup::Wanted(find), Purpose::MissingPage(generation))
    }

    fn new(state: Lookup, purpose: Purpose) -> Self {
        Self { state, progress: 0, purpose, before: 0 }
    }

    /// The same as the next look-up of its request. `None` if the request has had as many as it may.
    pub(crate) fn after(self, last: Option<&Self>) -> Option<Self> {
        let before = last.map_or(0, |last| last.before + 1);
        (before < LOOKUPS_MAX).then_some(Self { before, ..self })
    }

    /// Whether its result was found in an earlier root than this generation's. The request may have joined a job that began
    /// before a switch. A file whose digest is asked for may have a root of its own.
    pub(crate) fn is_older_than(
        &self,
        generation: u64,
        (of_digested, of_next): (impl Fn(u8) -> u64, impl Fn(u8) -> u64),
    ) -> bool {
        let found_in = match &self.state {
            Lookup::Found(entry) | Lookup::Stale(entry) => entry.generation(),
            Lookup::Listed(listing, _) => listing.generation(),
            Lookup::Wanted(_) | Lookup::ListWanted(_) | Lookup::Asked | Lookup::Failed(_) => return false,
        };
        match self.purpose {
            Purpose::Target => found_in < generation,
            Purpose::NextRoot(of, behind) => of < generation || found_in < of_next(behind),
            Purpose::Digest(of, behind) => of < generation || found_in < of_digested(behind),
            Purpose::Fallback(of) | Purpose::MissingPage(of) => found_in.min(of) < generation,
        }
    }

    pub(crate) fn wants_job(&self) -> bool {
        matches!(self.state, Lookup::Wanted(_) | Lookup::ListWanted(_))
    }

    /// The job that is wanted. Returns it once.
    pub(crate) fn ask(&mut self) -> Option<Job> {
        if !self.wants_job() {
            return None;
        }
        match std::mem::replace(&mut self.state, Lookup::Asked) {
            Lookup::Wanted(find) => Some(Job::Find(find)),
            Lookup::ListWanted(list) => Some(Job::List(list)),
            _ => None,
        }
    }

    /// Takes the result of the job that [`FileLookup::ask`] returned.
    pub(crate) fn take(&mut self, done: Done, now_ms: u64, revalidate_ms: u64) {
        self.state = match done {
            Done::Found(entry) => Lookup::Found(entry),
            Done::Unchecked { known, failure } => {
                let is_young = known.age_ms(now_ms) < STALE_AFTER * revalidate_ms;
                match failure {
                    // What is known was found in a root that is no more.
                    Failure::RootGone => Lookup::Failed(failure),
                    _ if is_young => Lookup::Found(known),
                    Failure::DeviceDown | Failure::Broken => Lookup::Stale(known),
                    Failure::Overloaded
                    | Failure::OverBudget
                    | Failure::TimedOut
                    | Failure::NotFound
                    | Failure::Full => Lookup::Failed(failure),
                }
            }
            Done::Listed(Listed { listing, page: Some(page) }) => Lookup::Listed(listing, page),
            Done::Listed(Listed { listing, page: None }) => {
                self.progress = listing.progress();
                Lookup::ListWanted(List {
                    site: listing.site(),
                    path: listing.path().clone(),
                    order: listing.order(),
                    asked_ms: now_ms,
                    listing: Some(listing),
                    page: 0,
                })
            }
            Done::Failed(failure) => Lookup::Failed(failure),
            Done::Window(_) | Done::Folder(_) | Done::Spooled(_) | Done::Unspooled(_) | Done::Checked(_) => {
                Lookup::Failed(Failure::Broken)
            }
        };
    }

    /// Whether the job has made no progress, because another helper was in one call all the time.
    pub(crate) fn stands_still(&self, done: &Done) -> bool {
        matches!(done, Done::Listed(Listed { listing, page: None }) if listing.progress() == self.progress)
    }

    pub(crate) fn awaits_job(&self) -> bool {
        matches!(self.state, Lookup::Asked)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, Lookup::Found(_) | Lookup::Stale(_) | Lookup::Listed(..) | Lookup::Failed(_))
    }
}

/// The first job of a listing. `None` if the path cannot lead to a folder.
pub(crate) fn list(site: SiteId, raw_path: &[u8], order: Order, now: &Now) -> Option<List> {
    let path = SitePath::parse(raw_path).ok()?.into_owned();
    Some(List { site, path, order, asked_ms: now.ms(), listing: None, page: 0 })
}

/// `codings` are those that the client takes.
pub(crate) fn find_file(
    raw_path: &[u8],
    site: &Site,
    codings: impl Fn() -> CodingSet,
    cx: &mut Context<'_>,
) -> Found {
    let Context { server, local, now, tally, .. } = cx;
    let cached =
        local.as_mut().and_then(|local| local.get(site.id, raw_path, now.ms(), site.generation.get()));
    if let Some(entry) = cached.filter(|entry| entry.has_looked_for(&codings)) {
        tally.counts.add(Count::CacheHits, 1);
        return Found::Entry(entry);
    }
    let Ok(path) = SitePath::parse(raw_path) else { return Found::Refused(Status::BAD_REQUEST) };
    if site.settings.deny.cover(&path) {
        return Found::Refused(Status::NOT_FOUND);
    }
    if site.routes.as_ref().is_some_and(|routes| routes.holds(&path)) {
        // Only the application knows which of its names are hidden.
        return Found::Program;
    }
    if !site.settings.dotfiles && path.is_hidden() {
        return Found::Refused(Status::NOT_FOUND);
    }
    let find = |known, worth, path: SitePath<'_>| {
        let (path, asked_ms) = (path.into_owned(), now.ms());
        Found::Unknown(Find { site: site.id, path, known, asked_ms, worth, codings: codings() })
    };
    let Some(local) = local else { return find(None, Worth::ANYTHING, path) };
    match server.search((site.id, site.generation.get()), (&path, raw_path), &codings, local, now) {
        Ok(entry) => {
            tally.counts.add(Count::CacheHits, 1);
            Found::Entry(entry)
        }
        Err(known) => {
            tally.counts.add(Count::CacheMisses, 1);
            find(known, server.paths.worth(site.id, &path), path)
        }
    }
}

impl Server {
    /// For drivers that look files up in a thread of their own, which has this cache.
    ///
    /// # Errors
    /// If no cached entry may answer, the disk has to be asked. The error is the job for it.
    // What comes back is a job to do, not an error that travels far.
    #[allow(clippy::result_large_err)]
    pub fn look_up(&self, find: Find, local: &mut LocalCache, now: &Now) -> Result<Arc<Entry>, Find> {
        let Some(generation) = self.hosts.generation(find.site) else { return Err(find) };
        let (path, codings) = (&find.path, || find.codings);
        let cached = local.get(find.site, path.as_bytes(), now.ms(), generation);
        let found = match cached.filter(|entry| entry.has_looked_for(codings)) {
            Some(entry) => Ok(entry),
            None => self.search((find.site, generation), (path, path.as_bytes()), codings, local, now),
        };
        found.map_err(|known| Find { known, worth: self.paths.worth(find.site, &find.path), ..find })
    }

    /// Searches the shared cache. What it finds is offered to the worker's own cache, under the raw request target. The error
    /// is an entry that may not answer.
    fn search(
        &self,
        (site, generation): (SiteId, u64),
        (path, asked): (&SitePath<'_>, &[u8]),
        codings: impl FnOnce() -> CodingSet,
        local: &mut LocalCache,
        now: &Now,
    ) -> Result<Arc<Entry>, Option<Arc<Entry>>> {
        // An entry of an earlier root is no help to the next look either: its file is another one.
        let of_this_root = |entry: &Arc<Entry>| entry.generation() >= generation;
        let revalidate_ms = self.settings.revalidate_ms;
        let hits = local.take_hits(site, asked);
        let Some(entry) = self.paths.get(site, path, hits).filter(of_this_root) else { return Err(None) };
        if !entry.has_looked_for(codings) {
            return Err(Some(entry));
        }
        match entry.freshness(now.ms(), revalidate_ms) {
            Freshness::Fresh if self.claims_copy(site, path, &entry, now) => Err(Some(entry)),
            Freshness::Fresh => {
                local.offer(site, asked, &entry, now.ms(), entry.checked_ms() + revalidate_ms);
                Ok(entry)
            }
            Freshness::BeingChecked => Ok(entry),
            Freshness::Due | Freshness::Stale => Err(Some(entry)),
        }
    }

    /// Whether a file of the entry has become worth a copy, and this request is the one that has it made.
    fn claims_copy(&self, site: SiteId, path: &SitePath<'_>, entry: &Entry, now: &Now) -> bool {
        let file_bytes_max = self.paths.file_bytes_max();
        let is_worth_it = || self.paths.worth(site, path).of_copies(entry, file_bytes_max);
        self.settings.copies_content
            && entry.to_copy(file_bytes_max).next().is_some()
            && entry.claim_copy(now.ms(), is_worth_it)
    }
}
