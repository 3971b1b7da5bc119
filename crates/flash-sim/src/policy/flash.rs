//! Flash's own caches: the real path cache of `flash-core` with copies in the heap, above the kernel's page cache.
//!
//! A file that is worth a copy has one, and its pages are given up. What is not worth one is sent from the page cache, and the cache
//! keeps it open. An open file that has become worth a copy gets one at a later request.

use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use flash_core::cache::{CacheLimits, PathCache};
use flash_core::file::compressed::Compressed;
use flash_core::file::entry::{COPIED_AFTER_MS, Entry, Resource, Variants};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::stamp::Stamp;
use flash_core::file::{Content, File, OpenFile, Window};
use flash_core::path::SitePath;
use flash_core::site::id::SiteId;
use flash_http::media;
use flash_http::negotiate::CodingSet;

use super::cache::Cache;
use super::two_lists::TwoLists;

#[derive(Debug)]
pub struct Flash {
    /// Of each process.
    paths: Vec<PathCache<BuildHasherDefault<Fnv>>>,
    pages: TwoLists,
    /// Of heap and page cache together.
    memory_bytes: u64,
    /// For [`Cache`], which has no clock.
    requests: u64,
}

/// The size of the path cache, as the server decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLimits {
    pub memory_bytes: u64,
    /// `--file-cache-bytes`.
    pub file_cache_bytes: u64,
    /// `--path-cache`.
    pub entries_max: usize,
    /// Loops.
    pub threads: usize,
    /// They share the bounds, and the page cache. What is there serves all of them, so copies of several processes do not replace it.
    pub processes: usize,
}

/// `--revalidate`.
const REVALIDATE_MS: u64 = 1000;
/// A server that is busy.
const REQUESTS_PER_MS: u64 = 10;
const SITE: SiteId = SiteId(0);
/// `--path-cache`, unless said.
const ENTRIES_MAX: usize = 6000;
/// Of the memory, for copies.
const FILE_CACHE_SHARE: u64 = 4;
const FILE_CACHE_BYTES_MAX: u64 = 128 << 20;

/// What a request's look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A copy in the heap.
    Copy,
    /// A file that is open, and whose pages are in memory.
    Open,
    /// A file whose pages are in memory, and whose name had to be looked up.
    Named,
    /// The same, but it is worth a copy, which a helper makes: giving up pages may wait.
    ToCopy,
    /// A disk has to be asked.
    Nowhere,
}

impl Found {
    /// Whether it takes what a loop does not do.
    pub fn is_left_to_helpers(self) -> bool {
        matches!(self, Found::ToCopy | Found::Nowhere)
    }

    /// Whether the bytes are in the page cache, and nowhere else.
    pub fn is_in_pages(self) -> bool {
        matches!(self, Found::Open | Found::Named | Found::ToCopy)
    }
}

impl FlashLimits {
    /// What Flash takes by itself of so much memory.
    pub fn usual(memory_bytes: u64) -> FlashLimits {
        let file_cache_bytes = (memory_bytes / FILE_CACHE_SHARE).min(FILE_CACHE_BYTES_MAX);
        FlashLimits { memory_bytes, file_cache_bytes, entries_max: ENTRIES_MAX, threads: 1, processes: 1 }
    }
}

impl Flash {
    pub fn new(limits: FlashLimits) -> Flash {
        let FlashLimits { memory_bytes, file_cache_bytes, entries_max, threads, processes } = limits;
        let limits = CacheLimits {
            entries_max: entries_max / processes,
            bytes_max: file_cache_bytes / processes as u64,
            // Nothing but small files, whose copies take no descriptor, and open ones.
            descriptors_max: usize::MAX / 2,
            threads,
            local_caches: if processes == 1 { threads } else { 0 },
        };
        let paths = || PathCache::with_hasher(limits, BuildHasherDefault::default());
        let paths = std::iter::repeat_with(paths).take(processes).collect();
        Flash { paths, pages: TwoLists::new(memory_bytes), memory_bytes, requests: 0 }
    }

    /// A request's look, in one of the processes. `bytes` is the file's size, `pages_bytes` what it takes in the page cache.
    pub fn look(
        &mut self,
        process: usize,
        file: u32,
        (bytes, pages_bytes): (u64, u64),
        now_ms: u64,
    ) -> Found {
        let name = format!("/{file}");
        let path = SitePath::parse(name.as_bytes()).expect("a number is a name");
        let known = self.paths[process].get(SITE, &path, 0);
        match &known {
            Some(entry) if is_copy(entry) => return Found::Copy,
            Some(entry) if is_fresh(entry, now_ms) && !self.copies(entry, process, &path, bytes, now_ms) => {
                return if self.pages.touch(file) { Found::Open } else { Found::Nowhere };
            }
            Some(_) | None if !self.pages.contains(file) => return Found::Nowhere,
            Some(_) | None => {}
        }
        if self.is_worth_a_copy(process, &path, bytes) {
            return Found::ToCopy;
        }
        self.pages.touch(file);
        match known {
            Some(entry) => entry.checked(now_ms),
            None => self.find(process, file, &path, (bytes, pages_bytes), now_ms),
        }
        Found::Named
    }

    /// The disk begins to read the file for somebody.
    pub fn begin_read(&mut self, file: u32, pages_bytes: u64) {
        self.pages.begin_read(file, pages_bytes);
    }

    /// A helper has the file's bytes, from the disk or the page cache.
    pub fn read(&mut self, process: usize, file: u32, (bytes, pages_bytes): (u64, u64), now_ms: u64) {
        self.pages.end_read(file);
        let name = format!("/{file}");
        let path = SitePath::parse(name.as_bytes()).expect("a number is a name");
        match self.paths[process].peek(SITE, &path) {
            // Only a window was missing. Its name is not looked up.
            Some(entry)
                if is_fresh(&entry, now_ms) && !self.copies(&entry, process, &path, bytes, now_ms) =>
            {
                self.pages.read(file, pages_bytes);
            }
            Some(_) | None => self.find(process, file, &path, (bytes, pages_bytes), now_ms),
        }
    }

    /// Whether a request would not need a disk.
    pub fn contains(&self, process: usize, file: u32) -> bool {
        let name = format!("/{file}");
        let path = SitePath::parse(name.as_bytes()).expect("a number is a name");
        self.pages.contains(file)
            || self.paths[process].peek(SITE, &path).is_some_and(|entry| is_copy(&entry))
    }

    pub fn processes(&self) -> usize {
        self.paths.len()
    }

    /// Entries, and files in the page cache.
    pub fn len(&self) -> u64 {
        self.paths.iter().map(|paths| paths.entries() as u64).sum::<u64>() + self.pages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What copies and pages take.
    pub fn used(&self) -> u64 {
        self.copies_bytes() + self.pages.used()
    }

    fn copies_bytes(&self) -> u64 {
        self.paths.iter().map(PathCache::used_bytes).sum()
    }

    /// Whether the next request has an open file copied, although its entry is not due.
    fn copies(&self, entry: &Entry, process: usize, path: &SitePath<'_>, bytes: u64, now_ms: u64) -> bool {
        !is_copy(entry)
            && entry.age_ms(now_ms) >= COPIED_AFTER_MS
            && self.is_worth_a_copy(process, path, bytes)
    }

    fn is_worth_a_copy(&self, process: usize, path: &SitePath<'_>, bytes: u64) -> bool {
        let paths = &self.paths[process];
        bytes <= paths.file_bytes_max() && paths.worth(SITE, path).of_content(bytes)
    }

    /// Finds the file on the disk or in the page cache, and keeps what is worth it.
    fn find(
        &mut self,
        process: usize,
        file: u32,
        path: &SitePath<'_>,
        (bytes, pages_bytes): (u64, u64),
        now_ms: u64,
    ) {
        let worth = self.paths[process].worth(SITE, path);
        let is_copied = self.is_worth_a_copy(process, path, bytes);
        if is_copied && self.paths.len() == 1 {
            self.pages.forget(file);
        } else {
            self.pages.read(file, pages_bytes);
        }
        if is_copied || worth.open {
            self.paths[process].insert(SITE, path, &entry(bytes, is_copied, now_ms));
        }
        self.pages.resize(self.memory_bytes.saturating_sub(self.copies_bytes()));
    }
}

impl Cache for Flash {
    fn request(&mut self, file: u32, bytes: u64) -> bool {
        self.requests += 1;
        let now_ms = self.requests / REQUESTS_PER_MS;
        let found = self.look(0, file, (bytes, bytes), now_ms);
        if found.is_left_to_helpers() {
            self.read(0, file, (bytes, bytes), now_ms);
        }
        found != Found::Nowhere
    }
}

fn is_fresh(entry: &Entry, now_ms: u64) -> bool {
    entry.age_ms(now_ms) < REVALIDATE_MS
}

fn is_copy(entry: &Entry) -> bool {
    matches!(&entry.resource, Resource::File(variants) if variants.identity.content_bytes() > 0)
}

fn entry(bytes: u64, is_copied: bool, now_ms: u64) -> Arc<Entry> {
    let stamp = Stamp { device: 0, inode: 0, size: bytes, modified_ns: 0, changed_ns: 0 };
    let content = Content::Open(Arc::new(Simulated { memory_bytes: if is_copied { bytes } else { 0 } }));
    let template = HeaderTemplate::default();
    let file = File::new(stamp, media::of(b"file.html"), None, false, (&template, None), content);
    let (identity, compressed) = (Arc::new(file), Compressed::default());
    let variants = Variants { identity, coded: Vec::new(), looked_for: CodingSet::ALL, compressed };
    Arc::new(Entry::new(Resource::File(variants), now_ms))
}

/// A file with a size, whose bytes nobody reads.
#[derive(Debug)]
struct Simulated {
    memory_bytes: u64,
}

impl AsFd for Simulated {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdin()
    }
}

impl OpenFile for Simulated {
    fn window_now(&self, _: &Stamp, _: Range<u64>) -> Window {
        Window::Absent
    }

    fn load_window(&self, _: &Stamp, _: Range<u64>, _: bool) -> Window {
        Window::Failed
    }

    fn wait_for_window(&self, _: &Stamp, _: Range<u64>, _: u64) -> Window {
        Window::Failed
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

/// FNV-1a with a last mixture: the same in each run, as a simulation needs it.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}
