//! The pathname cache: from a site and a canonical path to its entry, with header block and content.
//!
//! The cache has three limits: entries, bytes and descriptors. That of bytes may shrink and grow while the server runs. Its [shards](shard) decide which entries are worth their room,
//! by how [often](frequencies) their names are requested.
//!
//! No thread sleeps for this cache. If a shard is locked, the caller spins for a moment and then does without. Each worker
//! keeps frequent entries in its [`local`](crate::cache::local) cache.

mod frequencies;
pub mod local;
pub mod memory_budget;
mod shard;

use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::hint::spin_loop;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use hashbrown::DefaultHashBuilder;

use self::frequencies::Frequencies;
use self::shard::{Evicted, Name, Room, Shard};
use crate::file::entry::Entry;
use crate::job::Worth;
use crate::path::SitePath;
use crate::site::id::SiteId;

#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub entries_max: usize,
    pub bytes_max: u64,
    /// Open files and snapshots. Content in the heap needs no descriptor.
    pub descriptors_max: usize,
    /// How many threads use the cache at the same time. They share the shards.
    pub threads: usize,
    /// How many workers have a [cache of their own](crate::cache::local). They share an eighth of the bytes.
    pub local_caches: usize,
}

#[derive(Debug)]
pub struct PathCache<S = DefaultHashBuilder> {
    /// A power of two of them, or none if the cache is switched off.
    shards: Box<[LockedShard]>,
    frequencies: Frequencies,
    hasher: S,
    /// What each shard may take at most.
    shard_limits: Room,
    /// What each shard may take now.
    shard_bytes: AtomicU64,
    file_bytes_max: u64,
    local_bytes_max: u64,
}

// Each shard has cache lines of its own. Otherwise processors with different shards would wait for each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LockedShard(RwLock<Shard>);

/// Each shard gets at least this much.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARD_DESCRIPTORS_MIN: u64 = 16;
/// How often a locked shard is tried. That takes longer than an insertion, and less than a thread's time slice.
const TRIES: usize = 100;
/// The workers' own caches may hold this part of all bytes.
const LOCAL_SHARE: u64 = 8;
const LOCAL_BYTES_MAX: u64 = 4 << 20;

impl PathCache {
    /// A cache whose hashes clients cannot guess.
    pub fn new(limits: CacheLimits) -> Self {
        Self::with_hasher(limits, DefaultHashBuilder::default())
    }
}

impl<S: BuildHasher> PathCache<S> {
    /// A cache with hashes of the caller's choice. A simulation needs the same in each run.
    pub fn with_hasher(limits: CacheLimits, hasher: S) -> Self {
        // Metadata needs room even if content is to have none.
        let metadata = limits.entries_max as u64 * 1024;
        let bytes = limits.bytes_max.max(metadata);
        let threads = limits.threads.max(1) as u64;
        let local_caches = limits.local_caches as u64;
        let local_bytes_max =
            (bytes / LOCAL_SHARE).checked_div(local_caches).unwrap_or(0).min(LOCAL_BYTES_MAX);
        let shared = bytes - bytes / LOCAL_SHARE;
        let bytes = bytes - local_caches * local_bytes_max;
        // A shard takes no entry larger than itself, and an entry may hold several descriptors.
        let roomy = (limits.descriptors_max as u64 / SHARD_DESCRIPTORS_MIN).max(1);
        // Whether workers have their part or not, a shard is large enough for the same files.
        let count = (shared / SHARD_BYTES_MIN).clamp(1, 4 * threads).min(roomy);
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        let file_bytes_max = (limits.bytes_max / count / 4).min(MEMORY_FILE_BYTES_MAX);
        let shard_limits = Room {
            bytes: bytes / count,
            entries: limits.entries_max as u64 / count,
            descriptors: limits.descriptors_max as u64 / count,
        };
        let count = if limits.entries_max == 0 { 0 } else { count as usize };
        Self {
            shards: iter::repeat_with(LockedShard::default).take(count).collect(),
            frequencies: Frequencies::new(limits.entries_max),
            hasher,
            shard_bytes: AtomicU64::new(shard_limits.bytes),
            shard_limits,
            file_bytes_max,
            local_bytes_max,
        }
    }

    /// The memory that all entries may take at most.
    pub fn bytes_max(&self) -> u64 {
        self.shard_limits.bytes * self.shards.len() as u64
    }

    /// Lets the entries take so much memory from now on, or [`bytes_max`](Self::bytes_max) if that is less. Those that are worth
    /// least leave. It locks each shard for a moment only. To be called by a thread that may wait.
    pub fn resize(&self, bytes: u64) {
        let Some(each) = bytes.checked_div(self.shards.len() as u64) else { return };
        self.shard_bytes.store(each.min(self.shard_limits.bytes), Ordering::Relaxed);
        for shard in &self.shards {
            loop {
                let mut evicted = Evicted::default();
                let mut locked = shard.0.write().unwrap_or_else(PoisonError::into_inner);
                let fits = locked.shrink(&self.room(), &self.frequencies, &mut evicted);
                drop((locked, evicted));
                if fits {
                    break;
                }
            }
        }
    }

    /// What each shard may take.
    fn room(&self) -> Room {
        Room { bytes: self.shard_bytes.load(Ordering::Relaxed), ..self.shard_limits }
    }

    /// The largest file that may have a copy in memory.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// What each worker's own cache may hold.
    pub fn local_bytes_max(&self) -> u64 {
        if self.shards.is_empty() { 0 } else { self.local_bytes_max }
    }

    /// The entry of a path. `unseen` is the number of requests for it that a worker's own cache has answered.
    pub fn get(&self, site: SiteId, path: &SitePath<'_>, unseen: u32) -> Option<Arc<Entry>> {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let shard = self.shard(hash)?;
        self.frequencies.add(hash, unseen.saturating_add(1));
        let shard = try_often(|| shard.0.try_read())?;
        shard.get(Name { hash, site, path }).map(Arc::clone)
    }

    /// The entry of a path. Nobody requests it now.
    pub fn peek(&self, site: SiteId, path: &SitePath<'_>) -> Option<Arc<Entry>> {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let shard = self.shard(hash)?.0.read().ok()?;
        shard.get(Name { hash, site, path }).map(Arc::clone)
    }

    /// Returns whether the cache has looked at the entry. It does not while the shard is locked. It may find that the entry is
    /// not worth its room. What Flash has compressed of the same version of the file meanwhile stays, and so do digests.
    pub fn insert(&self, site: SiteId, path: &SitePath<'_>, entry: &Arc<Entry>) -> bool {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let Some(shard) = self.shard(hash) else { return true };
        let mut evicted = Evicted::default();
        let Some(mut shard) = try_often(|| shard.0.try_write()) else { return false };
        let name = Name { hash, site, path };
        let compressed = shard.get(name).and_then(|old| entry.with_compressed_of(old)).map(Arc::new);
        let entry = compressed.as_ref().unwrap_or(entry);
        let digested = shard.get(name).and_then(|old| entry.with_known_digests_of(old)).map(Arc::new);
        let entry = digested.as_ref().unwrap_or(entry);
        let earlier = shard.get(name).filter(|old| old.is_of_same_files(entry)).map(Arc::clone);
        let limits = (&self.room(), &self.frequencies);
        if !shard.insert(name, entry, limits, &mut evicted)
            && let Some(earlier) = earlier
        {
            // There is no room for a copy. What was there without one is as good as before.
            earlier.checked(entry.checked_ms());
            shard.insert(name, &earlier, limits, &mut evicted);
        }
        drop((shard, evicted));
        true
    }

    /// Replaces an entry by what `next` makes of it, if it makes anything. Returns whether the entry was replaced. If there is no room
    /// for the new one, the old one stays. May wait for a lock.
    pub fn replace(
        &self,
        site: SiteId,
        path: &SitePath<'_>,
        next: impl FnOnce(&Arc<Entry>) -> Option<Arc<Entry>>,
    ) -> bool {
        let path = path.as_bytes();
        let hash = self.hash(site, path);
        let Some(shard) = self.shard(hash) else { return false };
        let (name, mut evicted) = (Name { hash, site, path }, Evicted::default());
        let mut shard = shard.0.write().unwrap_or_else(PoisonError::into_inner);
        let limits = (&self.room(), &self.frequencies);
        let is_replaced = match shard.get(name).and_then(next) {
            Some(entry) => shard.replace(name, &entry, limits, &mut evicted),
            None => false,
        };
        drop((shard, evicted));
        is_replaced
    }

    /// Removes the entries of all sites but these. It locks each shard for a moment only. To be called by a thread that may wait.
    pub fn retain_sites(&self, is_kept: impl Fn(SiteId) -> bool) {
        for shard in &self.shards {
            let mut from = 0;
            loop {
                let mut evicted = Evicted::default();
                let mut locked = shard.0.write().unwrap_or_else(PoisonError::into_inner);
                let next = locked.remove_sites(from, &is_kept, &mut evicted);
                drop((locked, evicted));
                let Some(next) = next else { break };
                from = next;
            }
        }
    }

    /// The names that were requested most often lately, the most frequent first. It locks each shard for a moment only. To be called by
    /// a thread that may wait.
    pub fn most_requested(&self, count: usize) -> Vec<(SiteId, Box<[u8]>)> {
        let mut best: Vec<(u8, SiteId, Box<[u8]>)> = Vec::new();
        // A name that was requested more often may be among them.
        let mut floor = 0;
        let keep = |best: &mut Vec<(u8, SiteId, Box<[u8]>)>| {
            best.sort_unstable_by_key(|(frequency, ..)| Reverse(*frequency));
            best.truncate(count);
            best.last().map_or(0, |(frequency, ..)| *frequency)
        };
        for shard in &self.shards {
            let mut from = Some(0);
            while let Some(first) = from {
                let locked = shard.0.read().unwrap_or_else(PoisonError::into_inner);
                from = locked.names(first, |name| {
                    let frequency = self.frequencies.of(name.hash);
                    if frequency > floor {
                        best.push((frequency, name.site, name.path.into()));
                    }
                });
                drop(locked);
                if best.len() > 2 * count {
                    floor = keep(&mut best);
                }
            }
        }
        keep(&mut best);
        best.into_iter().map(|(_, site, path)| (site, path)).collect()
    }

    /// Whether a missing name is worth an entry, which it is when it is requested again. Made-up names are requested once,
    /// and would take room.
    pub(crate) fn admits_refusal(&self, site: SiteId, path: &SitePath<'_>) -> bool {
        self.frequencies.of(self.hash(site, path.as_bytes())) > 1
    }

    /// What of the path's file should be in the cache. That is what there is room for, or what is worth more than the
    /// entries that it would replace.
    pub fn worth(&self, site: SiteId, path: &SitePath<'_>) -> Worth {
        let hash = self.hash(site, path.as_bytes());
        let Some(shard) = self.shard(hash) else { return Worth::ANYTHING };
        match try_often(|| shard.0.try_read()) {
            Some(shard) => shard.worth(hash, &self.room(), &self.frequencies),
            None => Worth { content_bytes_max: 0, free_bytes: 0, open: true },
        }
    }

    /// The same. May wait for a lock.
    pub(crate) fn worth_blocking(&self, site: SiteId, path: &SitePath<'_>) -> Worth {
        let hash = self.hash(site, path.as_bytes());
        let Some(shard) = self.shard(hash) else { return Worth::ANYTHING };
        let shard = shard.0.read().unwrap_or_else(PoisonError::into_inner);
        shard.worth(hash, &self.room(), &self.frequencies)
    }

    fn hash(&self, site: SiteId, path: &[u8]) -> u64 {
        self.hasher.hash_one((site, path))
    }

    fn shard(&self, hash: u64) -> Option<&LockedShard> {
        // The low bits choose the place within the shard.
        let number = (hash >> 48) as usize & self.shards.len().wrapping_sub(1);
        self.shards.get(number)
    }

    pub fn entries(&self) -> usize {
        self.sum(|room| room.entries) as usize
    }

    /// The memory of all entries.
    pub fn used_bytes(&self) -> u64 {
        self.sum(|room| room.bytes)
    }

    /// Entries that had to leave for others, or for want of memory.
    pub fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.read().map_or(0, |shard| shard.evictions())).sum()
    }

    fn sum(&self, what: impl Fn(Room) -> u64) -> u64 {
        self.shards.iter().map(|shard| shard.0.read().map_or(0, |shard| what(shard.used()))).sum()
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

/// The copy is made before the first byte is sent, so the first client of a large file would wait for the disk.
const MEMORY_FILE_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests;
