//! Counters in memory that outlives the workers which count there.
//!
//! A loop counts in a shard of its own, so it needs no atomic addition. Workers that block, and all rare events, share shards with
//! atomic additions. The memory is mapped before any fork, so the processes of mp count in it too. A report sums the shards up.
//!
//! A shard has a block of counters for each class of status and site. The kernel gives a page of it memory at the first access, a
//! read included. So a shard notes which blocks it has counted in, and a report reads no others. Sites without requests and classes
//! without responses cost nothing, and a shard never takes more than its mapping. A shard also notes what is new, so that who
//! looks at many sites again and again reads only those that somebody has asked for.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flash_core::job::Spent;
use flash_core::record::ResponseEnd;
use flash_core::record::counters::{COUNTERS_MAX, Count, CounterSet, Counts};
use flash_os::shared_array::SharedWords;
use flash_os::shared_text::SharedText;

use super::certificates::CertificateEnds;
use super::durations::{DURATIONS, class_of};
use super::names::{Names, SITES_MAX};
use super::programs::Programs;
use super::rows::Rows;

/// Room for the reasons of as many certificates as a server can want, of which each has 200 bytes. The kernel gives memory to what is
/// written only.
const RENEWAL_FAILURES_BYTES_MAX: usize = 8 << 20;

/// The classes of status, by their first digit. The last one is for a status that has none of these.
pub const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "other"];

/// The counters of a server.
#[derive(Debug)]
pub struct MetricsMemory {
    /// The names of sites.
    pub names: Names,
    pub programs: Arc<Programs>,
    /// Only for servers of several processes.
    pub certificates: CertificateEnds,
    /// A line for each certificate that is not renewed: its first host, and why.
    pub renewal_failures: SharedText,
    rows: Arc<Rows>,
    /// The first one is for rare events, and for what has no shard of its own.
    shards: Box<[Arc<SharedWords>]>,
    /// Shards with a single writer that are given away.
    given: AtomicUsize,
    /// Workers share the shards.
    is_shared: bool,
    /// Of the server that counts here. A daemon has none.
    pub architecture: &'static str,
    /// The machine's name. In a sandbox nobody could ask for it.
    pub machine: Box<str>,
}

/// Where one loop or worker counts.
#[derive(Clone, Debug)]
pub struct Shard {
    words: Arc<SharedWords>,
    /// Others count here too.
    is_shared: bool,
}

/// The words of [`Count`].
const COUNT_WORDS: usize = COUNTERS_MAX;
/// A bit for each block.
const MARK_WORDS: usize = CLASSES.len() * SITES_MAX / 64;
/// The words before the blocks: counts, the marks of blocks that have a response, and of those that have a new one.
const HEAD_WORDS: usize = COUNT_WORDS + 2 * MARK_WORDS;
/// Of a site and a class: durations, their sum, bytes, and responses that were cut off.
const BLOCK_WORDS: usize = DURATIONS + 3;
const SHARD_WORDS: usize = HEAD_WORDS + CLASSES.len() * SITES_MAX * BLOCK_WORDS;

/// The responses of a site and a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    /// By [`DURATION_BOUNDS_US`](super::DURATION_BOUNDS_US); the last element counts those that took longer.
    pub durations: Vec<u64>,
    pub duration_us: u64,
    pub body_bytes: u64,
    /// Those that ended before their last byte left.
    pub cut: u64,
}

impl MetricsMemory {
    /// For so many loops, each with a shard of its own.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn for_loops(loops: usize) -> io::Result<Self> {
        let memory = Self::new(loops, 1, false)?;
        memory.enter(0);
        Ok(memory)
    }

    /// For workers that block. They share so many shards.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn for_workers(shards: usize) -> io::Result<Self> {
        let memory = Self::new(shards, 1, true)?;
        memory.enter(0);
        Ok(memory)
    }

    /// The same for workers that are processes, of which so many count apart what programs they have. Each has to
    /// [enter](Self::enter) its row.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn for_processes(shards: usize, processes: usize) -> io::Result<Self> {
        Self::new(shards, processes, true)
    }

    fn new(shards: usize, processes: usize, is_shared: bool) -> io::Result<Self> {
        let rows = Arc::new(Rows::new(processes)?);
        let shard = |_| SharedWords::zeroed(SHARD_WORDS).map(Arc::new);
        Ok(Self {
            names: Names::of_sites()?,
            programs: Arc::new(Programs::new(&rows)?),
            certificates: CertificateEnds::new(&rows)?,
            renewal_failures: SharedText::new(RENEWAL_FAILURES_BYTES_MAX)?,
            rows,
            shards: (0..=shards).map(shard).collect::<io::Result<_>>()?,
            given: AtomicUsize::new(0),
            is_shared,
            architecture: "",
            machine: rustix::system::uname().nodename().to_string_lossy().into(),
        })
    }

    /// This process counts its programs in this row from now on, which no other process does. Without such a row it does not.
    pub fn enter(&self, row: usize) {
        self.programs.clear(row);
        self.certificates.clear(row);
        self.rows.enter(row);
    }

    /// This process counts no programs any more. Another one may enter its row.
    pub fn leave(&self) {
        self.rows.leave();
    }

    /// The shard of another loop or worker.
    pub(super) fn shard(&self) -> Shard {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        match (self.is_shared, self.shards.len() - 1) {
            (true, shards @ 1..) => {
                // The processes of mp count theirs from the start.
                let number = (given + std::process::id() as usize) % shards;
                Shard { words: Arc::clone(&self.shards[1 + number]), is_shared: true }
            }
            (false, shards) if given < shards => {
                Shard { words: Arc::clone(&self.shards[1 + given]), is_shared: false }
            }
            _ => self.common(),
        }
    }

    /// The shard for rare events, of any thread.
    pub(super) fn common(&self) -> Shard {
        Shard { words: Arc::clone(&self.shards[0]), is_shared: true }
    }

    pub fn sum(&self, of: Count) -> u64 {
        let sum: u64 = self.shards.iter().map(|shard| shard[of as usize].load(Ordering::Relaxed)).sum();
        sum / of.row().divisor
    }

    /// All sums.
    pub fn counts(&self) -> Counts<Count> {
        Counts::new(|what| self.sum(what))
    }

    /// Counts a response that ends in a thread without a shard, and whose request has begun elsewhere.
    pub fn count_end(&self, end: &ResponseEnd) {
        let shard = self.common();
        shard.response(end);
        shard.add(Count::Requests, 1);
    }

    /// Counts a response without a request.
    pub fn count_refusal(&self, end: &ResponseEnd) {
        self.common().add(Count::Begun, 1);
        self.count_end(end);
    }

    /// Whether a site has any responses.
    pub fn has_responses(&self, site: u32) -> bool {
        (0..CLASSES.len()).any(|class| self.shards_of(site, class).next().is_some())
    }

    /// The sites that have had responses since the last call. What ends at this moment may belong to the next call, too.
    pub fn take_changed(&self) -> BTreeSet<u32> {
        let mut changed = BTreeSet::new();
        for shard in &self.shards {
            for word in 0..MARK_WORDS {
                let marks = &shard[COUNT_WORDS + MARK_WORDS + word];
                let mut bits = match marks.load(Ordering::Relaxed) {
                    0 => continue,
                    _ => marks.swap(0, Ordering::Acquire),
                };
                while bits != 0 {
                    let number = word * 64 + bits.trailing_zeros() as usize;
                    changed.insert((number % SITES_MAX) as u32);
                    bits &= bits - 1;
                }
            }
        }
        changed
    }

    /// The responses of a site, by [`CLASSES`].
    pub fn of_site(&self, site: u32) -> [Responses; CLASSES.len()] {
        std::array::from_fn(|class| {
            let shards: Vec<_> = self.shards_of(site, class).collect();
            let at = block(site, class);
            let sum = |word: usize| shards.iter().map(|shard| shard[at + word].load(Ordering::Relaxed)).sum();
            Responses {
                durations: (0..DURATIONS).map(sum).collect(),
                duration_us: sum(DURATIONS),
                body_bytes: sum(DURATIONS + 1),
                cut: sum(DURATIONS + 2),
            }
        })
    }

    /// The shards in which a site has responses of this class.
    fn shards_of(&self, site: u32, class: usize) -> impl Iterator<Item = &Arc<SharedWords>> {
        let (word, bit) = mark(site, class);
        self.shards.iter().filter(move |shard| shard[word].load(Ordering::Relaxed) & bit != 0)
    }
}

impl Responses {
    pub fn count(&self) -> u64 {
        self.durations.iter().sum()
    }
}

impl Shard {
    pub fn add(&self, what: Count, count: u64) {
        self.add_at(what as usize, count);
    }

    pub fn get(&self, what: Count) -> u64 {
        self.words[what as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn add_at(&self, at: usize, count: u64) {
        if count == 0 {
            return;
        }
        let word = &self.words[at];
        if self.is_shared {
            word.fetch_add(count, Ordering::Relaxed);
        } else {
            // Not an atomic addition: only one thread adds.
            word.store(word.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        }
    }

    /// A response has ended.
    pub fn response(&self, end: &ResponseEnd) {
        let class = match end.status {
            200..=299 => 0,
            300..=399 => 1,
            400..=499 => 2,
            500..=599 => 3,
            _ => 4,
        };
        let at = block(end.site, class);
        self.add_at(at + class_of(end.duration_us), 1);
        self.add_at(at + DURATIONS, end.duration_us);
        self.add_at(at + DURATIONS + 1, end.body_bytes);
        self.add_at(at + DURATIONS + 2, u64::from(end.cut));
        // Afterwards, so that who takes the mark sees the response.
        let (word, bit) = mark(end.site, class);
        for word in [word, word + MARK_WORDS] {
            if self.words[word].load(Ordering::Relaxed) & bit == 0 {
                self.words[word].fetch_or(bit, Ordering::Release);
            }
        }
    }

    /// What a request's job has taken.
    pub fn spend(&self, spent: &Spent) {
        for (what, ns) in [
            (Count::WalkNs, spent.walk_ns),
            (Count::OpenNs, spent.open_ns),
            (Count::ReadNs, spent.read_ns),
            (Count::QueueNs, spent.queue_ns),
            (Count::HelpNs, spent.help_ns),
        ] {
            self.add(what, ns);
        }
    }
}

/// Where the counters of a site and a class begin.
fn block(site: u32, class: usize) -> usize {
    HEAD_WORDS + number(site, class) * BLOCK_WORDS
}

/// The word and the bit that say whether a site has responses of a class.
fn mark(site: u32, class: usize) -> (usize, u64) {
    let number = number(site, class);
    (COUNT_WORDS + number / 64, 1 << (number % 64))
}

/// Of a block. Most sites have responses of few classes, so the blocks of a class lie together.
fn number(site: u32, class: usize) -> usize {
    class * SITES_MAX + (site as usize).min(SITES_MAX - 1)
}

#[cfg(test)]
mod tests;
