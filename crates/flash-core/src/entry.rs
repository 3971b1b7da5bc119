//! What a pathname leads to: the value of the pathname cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_http::negotiate::{Accepts, Coding, CodingSet};
use flash_http::status::Status;

use crate::file::{Content, File};

#[derive(Debug)]
pub struct Entry {
    pub resource: Resource,
    /// When somebody last looked at the disk for it, in the server's milliseconds.
    checked_ms: AtomicU64,
    /// When somebody last set out to.
    claimed_ms: AtomicU64,
}

#[derive(Debug)]
pub enum Resource {
    File(Variants),
    /// A folder that has no index file, asked for with its slash.
    Folder,
    /// A folder asked for without its slash.
    FolderWithoutSlash,
    /// A program's file, by its name in the site. Nobody has opened it, and nobody can send it.
    Script(Box<[u8]>),
    /// Nothing to serve, and the status that says why: 403 or 404.
    Refused(Status),
}

/// How far an entry may be trusted, by the time since the last look at the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Younger than `--revalidate`.
    Fresh,
    /// Older, and this caller is the one that has the disk looked at. The entry answers meanwhile.
    Due,
    /// Older, and another caller has the disk looked at. The entry answers meanwhile.
    BeingChecked,
    /// Too old to answer: the request waits for a look at the disk.
    Stale,
}

/// No answer is older than this many times `--revalidate`.
pub const STALE_AFTER: u64 = 2;

/// A file and its precompressed siblings.
#[derive(Debug)]
pub struct Variants {
    pub identity: Arc<File>,
    /// At most one for each coding.
    pub coded: Vec<Arc<File>>,
}

impl Variants {
    pub(crate) fn choose(&self, accepts: impl FnOnce() -> Accepts) -> &Arc<File> {
        if self.coded.is_empty() {
            return &self.identity;
        }
        let available =
            self.coded.iter().filter_map(|file| file.coding).fold(CodingSet::EMPTY, CodingSet::with);
        let chosen: Option<Coding> = accepts().choose(available);
        chosen
            .and_then(|coding| self.coded.iter().find(|file| file.coding == Some(coding)))
            .unwrap_or(&self.identity)
    }
}

impl Entry {
    pub fn new(resource: Resource, checked_ms: u64) -> Self {
        Self { resource, checked_ms: AtomicU64::new(checked_ms), claimed_ms: AtomicU64::new(checked_ms) }
    }

    pub(crate) fn leads_somewhere(&self) -> bool {
        !matches!(self.resource, Resource::Refused(_))
    }

    pub fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        let variants = match &self.resource {
            Resource::File(variants) => Some(variants),
            _ => None,
        };
        variants.into_iter().flat_map(|variants| std::iter::once(&variants.identity).chain(&variants.coded))
    }

    pub fn weight_bytes(&self) -> u64 {
        size_of::<Entry>() as u64 + self.files().map(|file| file.weight_bytes()).sum::<u64>()
    }

    /// How many files it holds open.
    pub(crate) fn descriptors(&self) -> u64 {
        self.files().filter(|file| matches!(file.content, Content::Open(_))).count() as u64
    }

    /// Whether the entry may answer a request now, or the disk has to be looked at for it.
    pub(crate) fn freshness(&self, now_ms: u64, revalidate_ms: u64) -> Freshness {
        match self.age_ms(now_ms) {
            age if age < revalidate_ms => Freshness::Fresh,
            age if age >= STALE_AFTER * revalidate_ms => Freshness::Stale,
            _ if self.claim_check(now_ms, revalidate_ms) => Freshness::Due,
            _ => Freshness::BeingChecked,
        }
    }

    /// True for exactly one caller once the last claim is older than `after_ms`: that one looks again.
    fn claim_check(&self, now_ms: u64, after_ms: u64) -> bool {
        let claimed = self.claimed_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(claimed) >= after_ms
            && self.claimed_ms.compare_exchange(claimed, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The time since the last look at the disk.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.checked_ms())
    }

    pub fn checked(&self, now_ms: u64) {
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        self.claimed_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn checked_ms(&self) -> u64 {
        self.checked_ms.load(Ordering::Relaxed)
    }

    /// The same for a single runner: its reference counts are nobody else's. The content is shared all the same.
    pub(crate) fn replica(&self) -> Self {
        let replica = |file: &Arc<File>| Arc::new(File::clone(file));
        let resource = match &self.resource {
            Resource::File(Variants { identity, coded }) => Resource::File(Variants {
                identity: replica(identity),
                coded: coded.iter().map(replica).collect(),
            }),
            Resource::Folder => Resource::Folder,
            Resource::FolderWithoutSlash => Resource::FolderWithoutSlash,
            Resource::Script(name) => Resource::Script(name.clone()),
            Resource::Refused(status) => Resource::Refused(*status),
        };
        Self::new(resource, self.checked_ms())
    }
}
