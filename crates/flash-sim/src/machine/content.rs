//! A cache of content, by what decides which files stay: the papers' LRU, the kernel's page cache, or Flash's copies above it.

use crate::engine::Time;
use crate::parameters::Content;
use crate::policy::{Flash, FlashLimits, Found, Lru, TwoLists};

/// A page of the page cache.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) enum ContentCache {
    Lru(Lru),
    PageCache(TwoLists),
    Flash(Box<Flash>),
}

/// What files weigh, and when it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a> {
    pub(super) bytes: &'a [u64],
    /// Of a file, beside its content.
    pub(super) entry_bytes: u64,
    pub(super) now: Time,
}

impl Weights<'_> {
    pub(super) fn bytes(&self, file: u32) -> u64 {
        self.bytes[file as usize]
    }

    /// In a cache without pages.
    pub(super) fn weight(&self, file: u32) -> u64 {
        self.bytes(file) + self.entry_bytes
    }

    fn pages(&self, file: u32) -> u64 {
        self.bytes(file).next_multiple_of(PAGE_BYTES) + self.entry_bytes
    }

    fn now_ms(&self) -> u64 {
        self.now / 1_000_000
    }
}

impl ContentCache {
    /// Of so many bytes. Flash's copies may take `file_cache_bytes` of them.
    pub(super) fn new(
        content: Content,
        capacity: u64,
        (file_cache_bytes, entries_max): (Option<u64>, usize),
        (threads, processes): (usize, usize),
    ) -> ContentCache {
        let usual = FlashLimits::usual(capacity);
        let file_cache_bytes = file_cache_bytes.unwrap_or(usual.file_cache_bytes);
        match content {
            Content::Lru => ContentCache::Lru(Lru::new(capacity)),
            Content::PageCache => ContentCache::PageCache(TwoLists::new(capacity)),
            Content::Flash => {
                let limits = FlashLimits { file_cache_bytes, entries_max, threads, processes, ..usual };
                ContentCache::Flash(Box::new(Flash::new(limits)))
            }
        }
    }

    /// A request's look. The papers' servers have files in their own memory, and the page cache is the kernel's.
    pub(super) fn look(&mut self, process: u32, file: u32, weights: Weights) -> Found {
        let found = |is_there, found| if is_there { found } else { Found::Nowhere };
        match self {
            ContentCache::Lru(lru) => found(lru.touch(file), Found::Copy),
            ContentCache::PageCache(pages) => found(pages.touch(file), Found::Open),
            ContentCache::Flash(flash) => {
                let process = process as usize % flash.processes();
                flash.look(process, file, (weights.bytes(file), weights.pages(file)), weights.now_ms())
            }
        }
    }

    /// The same, but leaves no trace.
    pub(super) fn contains(&self, process: u32, file: u32) -> bool {
        match self {
            ContentCache::Lru(lru) => lru.contains(file),
            ContentCache::PageCache(pages) => pages.contains(file),
            ContentCache::Flash(flash) => flash.contains(process as usize % flash.processes(), file),
        }
    }

    /// A disk begins to read the file. In the papers' caches it takes its room when it is there.
    pub(super) fn begin_read(&mut self, file: u32, weights: Weights) {
        match self {
            ContentCache::Lru(_) => {}
            ContentCache::PageCache(pages) => pages.begin_read(file, weights.pages(file)),
            ContentCache::Flash(flash) => flash.begin_read(file, weights.pages(file)),
        }
    }

    /// Somebody has read the file.
    pub(super) fn keep(&mut self, process: u32, file: u32, weights: Weights) {
        match self {
            ContentCache::Lru(lru) => lru.insert(file, |file| weights.weight(file)),
            ContentCache::PageCache(pages) => {
                pages.end_read(file);
                pages.read(file, weights.pages(file));
            }
            ContentCache::Flash(flash) => {
                let process = process as usize % flash.processes();
                flash.read(process, file, (weights.bytes(file), weights.pages(file)), weights.now_ms());
            }
        }
    }

    /// Whether more requests would make it warmer. What counts frequencies is never as warm as it can be.
    pub(super) fn is_cold(&self) -> bool {
        match self {
            ContentCache::Lru(lru) => !lru.has_evicted(),
            ContentCache::PageCache(_) | ContentCache::Flash(_) => true,
        }
    }

    /// The files in it, and all that they take.
    pub(super) fn used(&self) -> (u64, u64) {
        match self {
            ContentCache::Lru(lru) => (lru.len() as u64, lru.used()),
            ContentCache::PageCache(pages) => (pages.len(), pages.used()),
            ContentCache::Flash(flash) => (flash.len(), flash.used()),
        }
    }
}
