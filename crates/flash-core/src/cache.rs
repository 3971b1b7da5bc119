//! The pathname cache: from a site and a canonical path to its entry, with header block and content.
//!
//! The cache has three limits: entries, bytes and descriptors. One weight enforces all of them. An entry weighs its bytes.
//! It weighs at least an even share of the entries, and at least one share for each descriptor that it holds. `quick_cache`
//! evicts; it resists scans.
//!
//! No thread sleeps for this cache. If a shard is locked, the caller spins for a moment and then does without. Each worker
//! keeps frequent entries in its [`local`](crate::local) cache.

use std::hash::{BuildHasher, Hash, Hasher};
use std::hint::spin_loop;
use std::iter;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock, TryLockError};

use quick_cache::unsync::Cache;
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter};

use crate::entry::Entry;
use crate::path::SitePath;
use crate::site_id::SiteId;

#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub entries_max: usize,
    pub bytes_max: u64,
    /// Open files and snapshots. Content in the heap needs no descriptor.
    pub descriptors_max: usize,
    /// How many threads use the cache at the same time. They share the shards.
    pub threads: usize,
}

#[derive(Debug)]
pub struct PathCache {
    /// A power of two of them, or none if the cache is switched off.
    shards: Box<[Shard]>,
    /// Parts of the hashes of missing names that were requested.
    doorkeeper: Box<[AtomicU32]>,
    hasher: DefaultHashBuilder,
    file_bytes_max: u64,
    local_bytes_max: u64,
}

// Each shard has cache lines of its own. Otherwise processors with different shards would wait for each other.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(RwLock<Cache<Key, Arc<Entry>, Weigh, Hashed, Collect>>);

/// Collects evicted entries, so that they are dropped after the lock is released.
#[derive(Clone, Copy, Debug, Default)]
struct Collect;

type Evicted = Vec<(Key, Arc<Entry>)>;

/// A path of a site, with its hash. The hash chooses the shard, and then the place in the shard.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    hash: u64,
    site: SiteId,
    path: Box<[u8]>,
}

struct Asked<'a> {
    hash: u64,
    site: SiteId,
    path: &'a [u8],
}

#[derive(Clone, Debug)]
struct Weigh {
    least: u64,
    descriptor: u64,
}

/// Each shard gets at least this much.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARD_DESCRIPTORS_MIN: u64 = 16;
/// How often a locked shard is tried. That takes longer than an insertion, and less than a thread's time slice.
const TRIES: usize = 100;
/// The workers' own caches may hold this part of all bytes.
const LOCAL_SHARE: u64 = 8;
const LOCAL_BYTES_MAX: u64 = 4 << 20;
/// How many missing names the doorkeeper remembers, more or less.
const DOORKEEPER_NAMES: usize = 4096;

impl PathCache {
    pub fn new(limits: CacheLimits) -> Self {
        // Metadata needs room even if content is to have none.
        let metadata = limits.entries_max as u64 * 1024;
        let bytes = limits.bytes_max.max(metadata);
        let threads = limits.threads.max(1) as u64;
        let local_bytes_max = (bytes / LOCAL_SHARE / threads).min(LOCAL_BYTES_MAX);
        let bytes = bytes - threads * local_bytes_max;
        // A shard takes no entry heavier than itself, and an entry may hold several descriptors.
        let roomy = (limits.descriptors_max as u64 / SHARD_DESCRIPTORS_MIN).max(1);
        let count = (bytes / SHARD_BYTES_MIN).clamp(1, 4 * threads).min(roomy);
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        let file_bytes_max = (limits.bytes_max / count / 4).min(MEMORY_FILE_BYTES_MAX);
        let share = |most: usize| bytes.div_ceil(most.max(1) as u64).max(1);
        let weigh = Weigh { least: share(limits.entries_max), descriptor: share(limits.descriptors_max) };
        let shard = || {
            let options = OptionsBuilder::new()
                .estimated_items_capacity(limits.entries_max / count as usize)
                .weight_capacity(bytes / count)
                .build()
                .expect("both values are given");
            Shard(RwLock::new(Cache::with_options(options, weigh.clone(), Hashed, Collect)))
        };
        let count = if limits.entries_max == 0 { 0 } else { count as usize };
        let shards = iter::repeat_with(shard).take(count).collect();
        let doorkeeper = iter::repeat_with(AtomicU32::default).take(DOORKEEPER_NAMES).collect();
        Self { shards, doorkeeper, hasher: DefaultHashBuilder::default(), file_bytes_max, local_bytes_max }
    }

    /// The largest file that is worth a copy in memory.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// What each worker's own cache may hold.
    pub fn local_bytes_max(&self) -> u64 {
        if self.shards.is_empty() { 0 } else { self.local_bytes_max }
    }

    pub fn get(&self, site: SiteId, path: &SitePath<'_>) -> Option<Arc<Entry>> {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let shard = self.shard(hash)?;
        let shard = try_often(|| shard.0.try_read())?;
        shard.get(&Asked { hash, site, path }).map(Arc::clone)
    }

    /// Returns whether the cache has taken the entry. It does not while the shard is locked.
    pub fn insert(&self, site: SiteId, path: &SitePath<'_>, entry: &Arc<Entry>) -> bool {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let Some(shard) = self.shard(hash) else { return true };
        let mut evicted = Evicted::default();
        let Some(mut shard) = try_often(|| shard.0.try_write()) else { return false };
        shard.insert_with_lifecycle(Key { hash, site, path: path.into() }, Arc::clone(entry), &mut evicted);
        drop((shard, evicted));
        true
    }

    /// Whether a missing name is worth an entry, which it is when it is requested again. Made-up names are requested once,
    /// and would evict useful entries.
    pub(crate) fn admits_refusal(&self, site: SiteId, path: &SitePath<'_>) -> bool {
        let hash = self.hash(site, path.as_bytes());
        let seen = (hash >> 32) as u32;
        self.doorkeeper[hash as usize % DOORKEEPER_NAMES].swap(seen, Ordering::Relaxed) == seen
    }

    fn hash(&self, site: SiteId, path: &[u8]) -> u64 {
        self.hasher.hash_one((site, path))
    }

    fn shard(&self, hash: u64) -> Option<&Shard> {
        // The low bits choose the place within the shard.
        let number = (hash >> 48) as usize & self.shards.len().wrapping_sub(1);
        self.shards.get(number)
    }

    pub fn entries(&self) -> usize {
        self.sum(|cache| cache.len() as u64) as usize
    }

    /// The weight of all entries, in bytes.
    pub fn weight_bytes(&self) -> u64 {
        self.sum(|cache| cache.weight())
    }

    fn sum(&self, what: impl Fn(&Cache<Key, Arc<Entry>, Weigh, Hashed, Collect>) -> u64) -> u64 {
        self.shards.iter().map(|shard| shard.0.read().map_or(0, |cache| what(&cache))).sum()
    }
}

/// Takes a lock if that is possible within a moment. No code panics while it holds the lock, so the lock is never poisoned.
fn try_often<Lock>(lock: impl Fn() -> Result<Lock, TryLockError<Lock>>) -> Option<Lock> {
    for _ in 0..TRIES {
        match lock() {
            Ok(lock) => return Some(lock),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => spin_loop(),
        }
    }
    None
}

impl Weighter<Key, Arc<Entry>> for Weigh {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        let bytes = key.path.len() as u64 + entry.weight_bytes();
        bytes.max(self.least).max(entry.descriptors() * self.descriptor)
    }
}

impl Lifecycle<Key, Arc<Entry>> for Collect {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, key: Key, entry: Arc<Entry>) {
        evicted.push((key, entry));
    }
}

impl Equivalent<Key> for Asked<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.hash == key.hash && self.site == key.site && *self.path == *key.path
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// For keys that contain their hash.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed;

#[derive(Default)]
struct TheirHash(u64);

impl BuildHasher for Hashed {
    type Hasher = TheirHash;

    fn build_hasher(&self) -> TheirHash {
        TheirHash::default()
    }
}

impl Hasher for TheirHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys write their hash and nothing else");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The copy is made before the first byte is sent, so the first client of a large file would wait for the disk.
const MEMORY_FILE_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Resource;
    use crate::job::{Done, Find, Job};
    use crate::testing::Disk;

    const SITE: SiteId = SiteId(0);

    fn limits(entries_max: usize, bytes_max: u64) -> CacheLimits {
        CacheLimits { entries_max, bytes_max, descriptors_max: entries_max, threads: 1 }
    }

    fn missing() -> Arc<Entry> {
        Arc::new(Entry::new(Resource::Missing, 0))
    }

    #[test]
    fn neither_bound_is_passed() {
        let limits = CacheLimits { descriptors_max: 10, threads: 2, ..limits(6_000, 128 << 20) };
        let cache = PathCache::new(limits);
        for number in 0..20_000 {
            let name = format!("/{number}");
            assert!(cache.insert(SITE, &SitePath::parse(name.as_bytes()).unwrap(), &missing()));
        }
        assert!(cache.entries() <= 6_000, "{} entries", cache.entries());
        assert!(cache.entries() > 4_000, "{} entries", cache.entries());
        assert!(cache.weight_bytes() <= 128 << 20);
    }

    #[test]
    fn no_more_files_are_held_open_than_there_may_be_descriptors() {
        let mut disk = Disk::new(0);
        disk.put("/a", *b"too large for memory");
        let path = SitePath::parse(b"/a").unwrap();
        let find = Job::Find(Find { site: SITE, path: path.into_owned(), known: None, asked_ms: 0 });
        for (descriptors_max, threads) in [(10, 64), (100, 1)] {
            let limits = CacheLimits { descriptors_max, threads, ..limits(6_000, 128 << 20) };
            let cache = PathCache::new(limits);
            for number in 0..1_000 {
                let Some(Done::Found(open)) = disk.try_now(&find) else { panic!("it is there") };
                let name = format!("/{number}");
                assert!(cache.insert(SITE, &SitePath::parse(name.as_bytes()).unwrap(), &open));
            }
            let open = disk.open_files();
            assert!((descriptors_max / 2..=descriptors_max).contains(&open), "{open} of {descriptors_max}");
        }
        assert_eq!(disk.open_files(), 0);
    }

    #[test]
    fn what_leads_nowhere_is_admitted_the_second_time() {
        let cache = PathCache::new(limits(100, 1 << 20));
        let admits = |name: String| cache.admits_refusal(SITE, &SitePath::parse(name.as_bytes()).unwrap());
        assert!(!admits("/a".into()) && admits("/a".into()) && admits("/a".into()));
        let admitted = (0..100_000).filter(|number| admits(format!("/{number}"))).count();
        assert!(admitted < 10, "{admitted} of those that were asked for once");
        assert!(!admits("/a".into()), "it was asked for long ago");
    }

    #[test]
    fn a_path_is_another_one_in_another_site() {
        let cache = PathCache::new(limits(100, 1 << 20));
        let path = SitePath::parse(b"/a").unwrap();
        assert!(!cache.admits_refusal(SITE, &path) && !cache.admits_refusal(SiteId(1), &path));
        assert!(cache.insert(SITE, &path, &missing()));
        assert!(cache.get(SITE, &path).is_some() && cache.get(SiteId(1), &path).is_none());
    }

    #[test]
    fn switched_off() {
        let cache = PathCache::new(limits(0, 1 << 20));
        let path = SitePath::parse(b"/a").unwrap();
        assert!(cache.insert(SITE, &path, &missing()), "there is nothing to wait for");
        assert!(cache.get(SITE, &path).is_none());
        assert_eq!(cache.local_bytes_max(), 0);
    }

    #[test]
    fn what_is_locked_is_done_without() {
        let cache = PathCache::new(limits(100, 1 << 20));
        let path = SitePath::parse(b"/a").unwrap();
        assert!(cache.insert(SITE, &path, &missing()));
        let locked = cache.shards[0].0.write().unwrap();
        assert!(cache.get(SITE, &path).is_none() && !cache.insert(SITE, &path, &missing()));
        drop(locked);
        assert!(cache.get(SITE, &path).is_some());
        let read = cache.shards[0].0.read().unwrap();
        assert!(cache.get(SITE, &path).is_some() && !cache.insert(SITE, &path, &missing()));
        drop(read);
    }
}
