//! The pathname cache: from a canonical path to its entry, and with it to header block and content.
//!
//! One bound by entries and one by bytes, held by a single weight: an entry counts for its bytes, but for no less
//! than an even share, so that neither bound can be passed. `quick_cache` evicts; it resists scans.

use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};

use crate::entry::Entry;
use crate::path::SitePath;

#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub entries_max: usize,
    pub bytes_max: u64,
    /// How many threads look things up at the same time: they share the shards.
    pub threads: usize,
}

#[derive(Debug)]
pub struct PathCache {
    /// `None` when the cache is switched off.
    cache: Option<Cache<Box<[u8]>, Arc<Entry>, Weigh>>,
    file_bytes_max: u64,
}

#[derive(Clone, Debug)]
struct Weigh {
    least: u64,
}

impl Weighter<Box<[u8]>, Arc<Entry>> for Weigh {
    fn weight(&self, path: &Box<[u8]>, entry: &Arc<Entry>) -> u64 {
        (path.len() as u64 + entry.weight_bytes()).max(self.least)
    }
}

/// A shard takes no entry heavier than itself, so there are no more of them than leaves each this much.
const SHARD_BYTES_MIN: u64 = 8 << 20;

impl PathCache {
    pub fn new(limits: CacheLimits) -> Self {
        // Metadata needs room even where content is to have none.
        let metadata = limits.entries_max as u64 * 1024;
        let bytes = limits.bytes_max.max(metadata);
        let shards = (bytes / SHARD_BYTES_MIN).clamp(1, 4 * limits.threads.max(1) as u64);
        let shards = if shards.is_power_of_two() { shards } else { shards.next_power_of_two() / 2 };
        let file_bytes_max = (limits.bytes_max / shards / 4).min(MEMORY_FILE_BYTES_MAX);
        if limits.entries_max == 0 {
            return Self { cache: None, file_bytes_max };
        }
        let options = OptionsBuilder::new()
            .estimated_items_capacity(limits.entries_max)
            .weight_capacity(bytes)
            .shards(shards as usize)
            .build()
            .expect("all three values are given");
        let weigh = Weigh { least: (bytes / limits.entries_max as u64).max(1) };
        let cache = Cache::with_options(options, weigh, Default::default(), Default::default());
        Self { cache: Some(cache), file_bytes_max }
    }

    /// The largest file worth a copy in memory.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    pub fn get(&self, path: &SitePath<'_>) -> Option<Arc<Entry>> {
        self.cache.as_ref()?.get(path.as_bytes())
    }

    pub fn insert(&self, path: &SitePath<'_>, entry: &Arc<Entry>) {
        if let Some(cache) = &self.cache {
            cache.insert(path.as_bytes().into(), Arc::clone(entry));
        }
    }

    pub fn entries(&self) -> usize {
        self.cache.as_ref().map_or(0, Cache::len)
    }

    /// What the entries count for against the bound by bytes.
    pub fn weight_bytes(&self) -> u64 {
        self.cache.as_ref().map_or(0, Cache::weight)
    }
}

/// A copy is made before the first byte leaves, so a large one makes its first client wait for the disk.
const MEMORY_FILE_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Target;
    use flash_http::status::Status;

    fn missing() -> Arc<Entry> {
        Arc::new(Entry::new(Target::Refused(Status::NOT_FOUND), 0))
    }

    #[test]
    fn neither_bound_is_passed() {
        let limits = CacheLimits { entries_max: 6_000, bytes_max: 128 << 20, threads: 2 };
        let cache = PathCache::new(limits);
        for number in 0..20_000 {
            let name = format!("/{number}");
            cache.insert(&SitePath::parse(name.as_bytes()).unwrap(), &missing());
        }
        assert!(cache.entries() <= 6_000, "{} entries", cache.entries());
        assert!(cache.entries() > 4_000, "{} entries", cache.entries());
        assert!(cache.weight_bytes() <= 128 << 20);
    }

    #[test]
    fn switched_off() {
        let cache = PathCache::new(CacheLimits { entries_max: 0, bytes_max: 1 << 20, threads: 1 });
        let path = SitePath::parse(b"/a").unwrap();
        cache.insert(&path, &missing());
        assert!(cache.get(&path).is_none());
    }
}
