//! How much memory is left for the file cache while the server runs. Programs in the same container, and everything else on the
//! machine, may take more than before.
//!
//! Memory that the kernel cannot take back without swapping counts as taken. What is left is for the file cache and the
//! page cache, half for each. So the file cache shrinks before the kernel has to drop pages that are in use, and grows
//! back. Where the kernel tells how long processes waited for memory (PSI), long waits let it shrink as well.
//!
//! The files are opened at the start, because a sandbox allows no other time. Counts of reclaim (`memory.events`,
//! `memory.failcnt`) are not used: they grow with each file that is read once the page cache fills a container.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use flash_core::cache::PathCache;
use flash_observe::{ErrorLog, RateLimit};
use flash_os::shared_heap;

use super::LIMITS;

/// The time between two looks, and while memory is short.
const PERIOD: Duration = Duration::from_secs(1);
const SHORT_PERIOD: Duration = Duration::from_millis(200);
const STACK_BYTES: usize = 128 << 10;
/// A cache grows by this part of its largest size at a time, and shrinks by this part of its present one at least.
const STEP: u64 = 16;
/// If all processes together wait for memory for this part of the time, the cache gives up a quarter of what it holds.
const STALLED_PART: u32 = 10;
const KEPT_OF_FOUR: u64 = 3;
/// What `memory.stat` says is taken. Each page is on one of these lists: shared memory is on those of `anon`, and locked pages are
/// unevictable, such as this program's own. Version 1 says nothing of the kernel's memory.
const TAKEN: [&str; 7] = [
    "active_anon",
    "inactive_anon",
    "unevictable",
    "slab_unreclaimable",
    "kernel_stack",
    "pagetables",
    "sock",
];
const TAKEN_OF_VERSION_1: [&str; 3] = ["total_active_anon", "total_inactive_anon", "total_unevictable"];

/// Files that tell how much memory is taken.
#[derive(Debug)]
pub(in crate::serve) struct MemoryFiles {
    levels: Vec<Level>,
    /// `/proc/meminfo`.
    machine: Option<File>,
}

/// A cgroup.
#[derive(Debug)]
struct Level {
    /// They may change at any time.
    limits: Vec<File>,
    stat: File,
    /// PSI, of version 2.
    pressure: Option<File>,
}

impl MemoryFiles {
    pub(in crate::serve) fn open(root: &Path) -> Self {
        let level = |group: std::path::PathBuf| {
            let limits = LIMITS.iter().filter_map(|name| File::open(group.join(name)).ok()).collect();
            let stat = File::open(group.join("memory.stat")).ok()?;
            Some(Level { limits, stat, pressure: File::open(group.join("memory.pressure")).ok() })
        };
        let levels = super::groups(root).into_iter().filter_map(level).collect();
        Self { levels, machine: File::open(root.join("proc/meminfo")).ok() }
    }

    /// The memory that is not taken: the least of all levels. `None` where nothing tells.
    fn left_bytes(&self) -> Option<u64> {
        let levels = self.levels.iter().filter_map(Level::left_bytes);
        levels.chain(self.machine.as_ref().and_then(machine_left_bytes)).min()
    }

    /// For each level, how long all of its processes together have waited for memory. `None` where the kernel does not tell.
    fn stalled(&self) -> Vec<Option<Duration>> {
        let micros = |level: &Level| field(&text(level.pressure.as_ref()?)?, "full ", "total=");
        self.levels.iter().map(|level| micros(level).map(Duration::from_micros)).collect()
    }
}

impl Level {
    fn left_bytes(&self) -> Option<u64> {
        let limit = self.limits.iter().filter_map(|file| text(file)?.trim().parse::<u64>().ok()).min()?;
        let stat = text(&self.stat)?;
        let names = if stat.contains("total_unevictable ") { &TAKEN_OF_VERSION_1[..] } else { &TAKEN };
        let pairs = stat.lines().filter_map(|line| line.split_once(' '));
        let taken = pairs.filter(|(name, _)| names.contains(name));
        Some(limit.saturating_sub(taken.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()))
    }
}

/// `MemAvailable`.
fn machine_left_bytes(meminfo: &File) -> Option<u64> {
    Some(field(&text(meminfo)?, "MemAvailable:", "")? << 10)
}

/// The number behind a word, in the line that begins so.
fn field(text: &str, line: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|found| found.strip_prefix(line))?;
    let number = rest[rest.find(word)? + word.len()..].trim_start();
    number.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

/// What the kernel says now. Such a file is made at each read from its beginning.
fn text(file: &File) -> Option<String> {
    let mut bytes = vec![0; 16 << 10];
    let count = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(count);
    String::from_utf8(bytes).ok()
}

/// The size of a cache that changes with what is left.
#[derive(Debug)]
struct Size {
    max: u64,
    now: u64,
    /// Of each level.
    stalled: Vec<Option<Duration>>,
    /// When to look again.
    period: Duration,
}

impl Size {
    fn new(max: u64, stalled: Vec<Option<Duration>>) -> Self {
        Self { max, now: max, stalled, period: PERIOD }
    }

    /// The size from now on, if it is another one. The cache holds `used` bytes.
    fn next(&mut self, used: u64, left: u64, stalled: Vec<Option<Duration>>) -> Option<u64> {
        // What the cache holds is among what is taken.
        let half = (left + used) / 2;
        let period =
            std::mem::replace(&mut self.period, if half < self.max * 2 { SHORT_PERIOD } else { PERIOD });
        let pairs = stalled.iter().zip(&self.stalled);
        let waited = pairs.filter_map(|(now, before)| Some(now.as_ref()?.saturating_sub((*before)?)));
        let waited = waited.max().unwrap_or_default();
        self.stalled = stalled;
        let wanted = match waited * STALLED_PART > period {
            true => half.min(used * KEPT_OF_FOUR / 4),
            false => half,
        };
        let wanted = wanted.min(self.max).min(self.now + self.max / STEP);
        let step = if wanted < self.now { self.now } else { self.max } / STEP;
        let is_other = wanted.abs_diff(self.now) >= step.max(1) || wanted == self.max;
        (is_other && wanted != self.now).then(|| {
            self.now = wanted;
            wanted
        })
    }
}

/// Starts the thread that sizes a cache. It ends with the cache. So many processes share what is left: each has a cache.
pub(in crate::serve) fn start(
    files: &Arc<MemoryFiles>,
    cache: &Arc<PathCache>,
    processes: usize,
    log: &ErrorLog,
) -> io::Result<()> {
    let (files, cache, log) = (Arc::clone(files), Arc::downgrade(cache), log.clone());
    let life = move || {
        let max = cache.upgrade().map_or(0, |cache| cache.bytes_max());
        let mut size = Size::new(max, files.stalled());
        loop {
            thread::sleep(size.period);
            if look(&files, &cache, processes, &mut size, &log).is_none() {
                return;
            }
        }
    };
    thread::Builder::new().name("memory".into()).stack_size(STACK_BYTES).spawn(life).map(drop)
}

/// Returns `None` once the cache is gone.
fn look(
    files: &MemoryFiles,
    cache: &Weak<PathCache>,
    processes: usize,
    size: &mut Size,
    log: &ErrorLog,
) -> Option<()> {
    static SHRINKS: RateLimit = RateLimit::every(Duration::from_secs(60));
    let cache = cache.upgrade()?;
    let Some(left) = files.left_bytes() else { return Some(()) };
    let before = size.now;
    let Some(now) = size.next(cache.used_bytes(), left / processes as u64, files.stalled()) else {
        return Some(());
    };
    cache.resize(now);
    if now < before {
        shared_heap::release_free_pages();
        let (now, max) = (now >> 20, size.max >> 20);
        let text = format_args!("memory is short: the file cache takes {now} of its {max} MiB for now");
        log.log_limited(&SHRINKS, text);
    }
    Some(())
}

#[cfg(test)]
mod tests;
