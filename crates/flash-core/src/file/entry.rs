//! What a pathname leads to: the value of the pathname cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_http::negotiate::{Accepts, Coding, CodingSet};

use crate::file::File;
use crate::file::compressed::Compressed;
use crate::path::SitePath;
use crate::record::refusal::Refusal;

#[derive(Debug)]
pub struct Entry {
    pub resource: Resource,
    /// When the disk was last asked, in the server's milliseconds.
    checked_ms: AtomicU64,
    /// When a caller last claimed the next look at the disk.
    claimed_ms: AtomicU64,
    /// When a caller last claimed to have a copy made.
    copied_ms: AtomicU64,
    /// When a caller last claimed to have digests made.
    digested_ms: AtomicU64,
    /// Of the [root](crate::site::root) that it was found in.
    generation: u64,
    /// The path of what answers, if it is another than was looked up: an index file's, or a script's before its path info.
    found_at: Option<SitePath<'static>>,
}

#[derive(Debug)]
pub enum Resource {
    File(Variants),
    /// A folder without an index file, requested with its slash.
    Folder,
    /// A folder that was requested without its slash.
    FolderWithoutSlash,
    /// A script, by its name in the site. Flash never opens it, and never sends it.
    Script(Box<[u8]>),
    /// There is nothing, or something that is not shown: 404.
    Missing,
    /// 403.
    Forbidden(Refusal),
}

/// Whether an entry may answer, by the time since the last look at the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Younger than `--revalidate`.
    Fresh,
    /// Older. This caller has the disk asked. The entry answers meanwhile.
    Due,
    /// Older. Another caller has the disk asked. The entry answers meanwhile.
    BeingChecked,
    /// Too old to answer: the request waits for a look at the disk.
    Stale,
}

/// An entry older than this many times `--revalidate` answers no request.
pub const STALE_AFTER: u64 = 2;
/// Between two requests for digests of one entry. The first may have been dropped, or the file may have changed meanwhile.
const DIGESTED_AGAIN_MS: u64 = 1000;
/// How long after a look at the disk the next one may copy a file that has become worth it.
pub const COPIED_AFTER_MS: u64 = 100;

/// A file, its precompressed siblings, and what Flash has compressed itself.
#[derive(Debug)]
pub struct Variants {
    pub identity: Arc<File>,
    /// At most one for each coding.
    pub coded: Vec<Arc<File>>,
    /// The codings in which the disk was asked for a sibling. All of them, if the file can have none.
    pub looked_for: CodingSet,
    /// What Flash itself compresses.
    pub compressed: Compressed,
}

impl Variants {
    pub(crate) fn choose(&self, accepts: impl FnOnce() -> Accepts) -> &Arc<File> {
        if self.coded.is_empty() && self.compressed.files.is_empty() {
            return &self.identity;
        }
        let accepts = accepts();
        let best_of = |files: &'_ [Arc<File>]| {
            let coding = accepts.choose(codings_of(files));
            files.iter().position(|file| coding.is_some() && file.coding == coding)
        };
        // Whoever publishes copies has chosen them.
        let copy = best_of(&self.coded).map(|place| &self.coded[place]);
        let own = || best_of(&self.compressed.files).map(|place| &self.compressed.files[place]);
        copy.or_else(own).unwrap_or(&self.identity)
    }

    /// What a part is taken from: the representation that the client names, or else the file itself. No later request of the same
    /// download finds that in another coding.
    pub(crate) fn of_part(
        &self,
        accepts: impl FnOnce() -> Accepts,
        is_named: impl Fn(&File) -> bool,
    ) -> &Arc<File> {
        let chosen = std::iter::once(self.choose(accepts));
        chosen.chain(&self.compressed.files).find(|file| is_named(file)).unwrap_or(&self.identity)
    }

    /// The coding of the copy beside the file that a client gets.
    pub(crate) fn copy_for(&self, accepts: Accepts) -> Option<Coding> {
        accepts.choose(codings_of(&self.coded))
    }

    /// The coding that a client would get if Flash had made it.
    pub(crate) fn wanted(&self, accepts: impl FnOnce() -> Accepts) -> Option<Coding> {
        if !self.compressed.has_possible() {
            return None;
        }
        let accepts = accepts();
        if self.copy_for(accepts).is_some() {
            return None;
        }
        accepts.choose(self.compressed.made_or_possible()).filter(|coding| self.compressed.may_make(*coding))
    }

    /// Whether a file has no entity tag because its digest is not known yet.
    pub fn lack_digest(&self) -> bool {
        self.found_files().any(|file| file.validators.lacks_digest())
    }

    /// Whether the digest of a file is not known that clients may ask for.
    pub(crate) fn lack_repr_digest(&self) -> bool {
        self.found_files().any(|file| file.repr_digest.is_unknown())
    }

    /// What was found on the disk.
    pub fn found_files(&self) -> impl Iterator<Item = &Arc<File>> {
        std::iter::once(&self.identity).chain(&self.coded)
    }
}

fn codings_of(files: &[Arc<File>]) -> CodingSet {
    files.iter().filter_map(|file| file.coding).fold(CodingSet::EMPTY, CodingSet::with)
}

impl Resource {
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Self::Folder | Self::FolderWithoutSlash)
    }
}

impl Entry {
    pub fn new(resource: Resource, checked_ms: u64) -> Self {
        let [checked, claimed, copied] = [checked_ms; 3].map(AtomicU64::new);
        let (digested_ms, generation, found_at) = (AtomicU64::new(0), 0, None);
        Self {
            resource,
            checked_ms: checked,
            claimed_ms: claimed,
            copied_ms: copied,
            digested_ms,
            generation,
            found_at,
        }
    }

    /// Found in the root of this generation.
    #[must_use]
    pub fn of_root(self, generation: u64) -> Self {
        Self { generation, ..self }
    }

    /// Found at this path, if that is not the one that was looked up.
    #[must_use]
    pub fn at(self, found_at: Option<SitePath<'static>>) -> Self {
        Self { found_at, ..self }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn found_at(&self) -> Option<&SitePath<'static>> {
        self.found_at.as_ref()
    }

    /// The same look at the disk, with this result.
    fn with(&self, resource: Resource) -> Self {
        Self::new(resource, self.checked_ms()).of_root(self.generation).at(self.found_at.clone())
    }

    pub(crate) fn leads_somewhere(&self) -> bool {
        !matches!(self.resource, Resource::Missing | Resource::Forbidden(_))
    }

    /// The file and its representations, if it is a file.
    pub fn variants(&self) -> Option<&Variants> {
        match &self.resource {
            Resource::File(variants) => Some(variants),
            _ => None,
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        let variants = self.variants();
        variants.into_iter().flat_map(|variants| variants.found_files().chain(&variants.compressed.files))
    }

    /// Those files that were found on the disk.
    pub fn found_files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.variants().into_iter().flat_map(Variants::found_files)
    }

    /// Whether it answers a client that takes these codings. If not, the disk has to be asked for siblings in them.
    pub fn has_looked_for(&self, codings: impl FnOnce() -> CodingSet) -> bool {
        match &self.resource {
            Resource::File(Variants { looked_for: CodingSet::ALL, .. }) => true,
            Resource::File(Variants { looked_for, .. }) => looked_for.contains_all(codings()),
            _ => true,
        }
    }

    pub fn weight_bytes(&self) -> u64 {
        let found_at = self.found_at.as_ref().map_or(0, |path| path.as_bytes().len() as u64);
        size_of::<Entry>() as u64 + found_at + self.files().map(|file| file.weight_bytes()).sum::<u64>()
    }

    /// Content in memory.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.files().map(|file| file.content_bytes()).sum()
    }

    /// The memory that open files take beside their contents.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.files().map(|file| file.table_bytes()).sum()
    }

    /// How many files it holds open.
    pub(crate) fn descriptors(&self) -> u64 {
        self.files().filter(|file| file.open_file().is_some()).count() as u64
    }

    /// What the caches keep of it: open files in place of contents that are [not worth](File::kept_as) their memory.
    pub fn kept(self: &Arc<Self>) -> Arc<Self> {
        match self.files().any(|file| file.kept_as.is_some()) {
            true => Arc::new(self.with_files(|file| Arc::new(file.as_kept()))),
            false => Arc::clone(self),
        }
    }

    /// Whether the entry may answer a request now, or the disk has to be asked first.
    pub(crate) fn freshness(&self, now_ms: u64, revalidate_ms: u64) -> Freshness {
        match self.age_ms(now_ms) {
            age if age < revalidate_ms => Freshness::Fresh,
            age if age >= STALE_AFTER * revalidate_ms => Freshness::Stale,
            _ if claim(&self.claimed_ms, now_ms, revalidate_ms) => Freshness::Due,
            _ => Freshness::BeingChecked,
        }
    }

    /// The files that are sent from the disk, and could have a copy in memory.
    pub(crate) fn to_copy(&self, file_bytes_max: u64) -> impl Iterator<Item = &Arc<File>> {
        self.files().filter(move |file| file.is_on_disk() && (1..=file_bytes_max).contains(&file.size()))
    }

    /// Whether a look may make copies now. Returns true for one caller, which has the disk asked, if they are worth it. A look
    /// that does not happen postpones no check.
    pub(crate) fn claim_copy(&self, now_ms: u64, is_worth_it: impl FnOnce() -> bool) -> bool {
        claim(&self.copied_ms, now_ms, COPIED_AFTER_MS) && is_worth_it()
    }

    /// Whether digests may be asked for now. Returns true for one caller in a while.
    pub(crate) fn claim_digest(&self, now_ms: u64) -> bool {
        claim(&self.digested_ms, now_ms, DIGESTED_AGAIN_MS)
    }

    /// The same entry with the digests that an older one has of the same versions. `None` if nothing changes.
    pub(crate) fn with_known_digests_of(&self, old: &Self) -> Option<Self> {
        if !self.found_files().any(|file| file.lacks_digest()) {
            return None;
        }
        let known: Vec<_> = old.found_files().filter(|file| !file.lacks_digest()).map(Arc::clone).collect();
        self.with_digests_of(&known)
    }

    /// The same entry with these files in the place of those that lack a digest. `None` if nothing changes.
    pub fn with_digests_of(&self, digested: &[Arc<File>]) -> Option<Self> {
        let digested_of = |file: &Arc<File>| {
            let is_it = |other: &&Arc<File>| other.stamp == file.stamp && other.coding == file.coding;
            digested.iter().find(is_it).filter(|_| file.lacks_digest())
        };
        let with_digest = |file: &Arc<File>| match digested_of(file) {
            Some(digested) => Arc::new(digested.with_content_of(file)),
            None => Arc::clone(file),
        };
        self.found_files().any(|file| digested_of(file).is_some()).then(|| self.with_files(with_digest))
    }

    /// The time since the last look at the disk.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.checked_ms())
    }

    pub fn checked(&self, now_ms: u64) {
        self.checked_ms.store(now_ms, Ordering::Relaxed);
        self.claimed_ms.fetch_max(now_ms, Ordering::Relaxed);
        self.copied_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn checked_ms(&self) -> u64 {
        self.checked_ms.load(Ordering::Relaxed)
    }

    /// A copy for a single worker, with its own reference counts. The content is shared.
    pub(crate) fn replica(&self) -> Self {
        self.with_files(|file| Arc::new(File::clone(file)))
    }

    /// The same entry of these variants, with other files that Flash has compressed.
    pub(crate) fn with_compressed(&self, variants: &Variants, compressed: Compressed) -> Self {
        let Variants { identity, coded, looked_for, .. } = variants;
        let (identity, coded) = (Arc::clone(identity), coded.clone());
        let variants = Variants { identity, coded, looked_for: *looked_for, compressed };
        self.with(Resource::File(variants))
    }

    /// The same file without the copies that lie beside it.
    pub(crate) fn without_copies(&self) -> Self {
        let mut entry = self.with_files(Arc::clone);
        if let Resource::File(variants) = &mut entry.resource {
            variants.coded.clear();
        }
        entry
    }

    /// The same entry with what another one of the same version of the file has compressed. `None` if that is no more.
    pub(crate) fn with_compressed_of(&self, other: &Self) -> Option<Self> {
        let (own, other) = (self.variants()?, other.variants()?);
        (other.compressed.is_ahead_of(&own.compressed) && own.identity.stamp == other.identity.stamp)
            .then(|| self.with_compressed(own, other.compressed.with_files(Arc::clone)))
    }

    /// Whether it has the same versions of the same files, found in the same root.
    pub(crate) fn is_of_same_files(&self, other: &Self) -> bool {
        let own = self.found_files().map(|file| &file.stamp);
        let others = other.found_files().map(|file| &file.stamp);
        self.generation == other.generation && self.variants().is_some() && own.eq(others)
    }

    /// The same entry with other files.
    fn with_files(&self, other: impl Fn(&Arc<File>) -> Arc<File>) -> Self {
        let resource = match &self.resource {
            Resource::File(Variants { identity, coded, looked_for, compressed }) => {
                Resource::File(Variants {
                    identity: other(identity),
                    coded: coded.iter().map(&other).collect(),
                    looked_for: *looked_for,
                    compressed: compressed.with_files(&other),
                })
            }
            Resource::Folder => Resource::Folder,
            Resource::FolderWithoutSlash => Resource::FolderWithoutSlash,
            Resource::Script(name) => Resource::Script(name.clone()),
            Resource::Missing => Resource::Missing,
            Resource::Forbidden(refusal) => Resource::Forbidden(*refusal),
        };
        self.with(resource)
    }
}

/// Returns true for exactly one caller once the last claim is older than `after_ms`. That caller has the disk asked.
fn claim(last: &AtomicU64, now_ms: u64, after_ms: u64) -> bool {
    let claimed = last.load(Ordering::Relaxed);
    now_ms.saturating_sub(claimed) >= after_ms
        && last.compare_exchange(claimed, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_nobody_makes_postpones_no_check() {
        let entry = Entry::new(Resource::Missing, 0);
        assert!(!entry.claim_copy(99, || true));
        assert!(!entry.claim_copy(100, || false), "it is asked once in a while");
        assert!(!entry.claim_copy(199, || true));
        for at in (200..=900).step_by(100) {
            assert!(entry.claim_copy(at, || true) && !entry.claim_copy(at, || true), "one caller at {at}");
        }
        assert_eq!(entry.freshness(1000, 1000), Freshness::Due);
        assert_eq!(entry.freshness(1000, 1000), Freshness::BeingChecked);
        entry.checked(1000);
        assert!(!entry.claim_copy(1099, || true) && entry.claim_copy(1100, || true));
    }
}
