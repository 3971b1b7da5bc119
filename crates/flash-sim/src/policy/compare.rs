//! Policies on the same requests, and how they did.

use super::belady;
use super::cache::Cache;
use super::flash::{Flash, FlashLimits};
use super::lru::Lru;
use super::s3_fifo::S3Fifo;
use super::sieve::Sieve;
use super::two_lists::TwoLists;
use super::w_tinylfu::WTinyLfu;

/// The policies that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// What was used longest ago leaves.
    Lru,
    /// The page cache of Linux.
    TwoLists,
    S3Fifo,
    Sieve,
    WTinyLfu,
    /// Flash's copies and the page cache, together of these bytes.
    Flash,
    /// Knows the future.
    Belady,
}

/// How a policy did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The part of the requests that found its file.
    pub hits: f64,
    /// The part of the bytes.
    pub byte_hits: f64,
    /// Reads of a disk, so many bytes at a time, for each request.
    pub reads_per_request: f64,
}

/// Requests, in their order, and the sizes of the files.
#[derive(Clone, Debug)]
pub struct Replayed {
    pub requests: Vec<u32>,
    /// By file. A page cache holds whole pages.
    pub bytes: Vec<u64>,
    /// So many of the first requests fill the caches, and are not counted.
    pub warm_up: usize,
    /// What the disk reads at a time.
    pub read_bytes: u64,
}

impl PolicyName {
    pub const ALL: [PolicyName; 7] = [
        PolicyName::Lru,
        PolicyName::TwoLists,
        PolicyName::S3Fifo,
        PolicyName::Sieve,
        PolicyName::WTinyLfu,
        PolicyName::Flash,
        PolicyName::Belady,
    ];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Lru => "LRU",
            PolicyName::TwoLists => "two lists",
            PolicyName::S3Fifo => "S3-FIFO",
            PolicyName::Sieve => "SIEVE",
            PolicyName::WTinyLfu => "W-TinyLFU",
            PolicyName::Flash => "Flash",
            PolicyName::Belady => "Belady",
        }
    }

    /// Plays the requests with a cache of so many bytes.
    pub fn score(self, replayed: &Replayed, capacity: u64) -> Score {
        let online = |policy: &mut dyn Cache| {
            let misses = |&file: &u32| !policy.request(file, replayed.bytes[file as usize]);
            replayed.requests.iter().map(misses).collect()
        };
        let misses: Vec<bool> = match self {
            PolicyName::Lru => online(&mut OfLru { lru: Lru::new(capacity), bytes: &replayed.bytes }),
            PolicyName::TwoLists => online(&mut TwoLists::new(capacity)),
            PolicyName::S3Fifo => online(&mut S3Fifo::new(capacity)),
            PolicyName::Sieve => online(&mut Sieve::new(capacity)),
            PolicyName::WTinyLfu => online(&mut WTinyLfu::new(capacity)),
            PolicyName::Flash => online(&mut Flash::new(FlashLimits::usual(capacity))),
            PolicyName::Belady => {
                let bytes = |file: u32| replayed.bytes[file as usize];
                belady::misses(&replayed.requests, bytes, |file| replayed.reads(file), capacity)
            }
        };
        replayed.score(&misses)
    }
}

impl Replayed {
    /// Reads that bring the file.
    fn reads(&self, file: u32) -> u64 {
        self.bytes[file as usize].div_ceil(self.read_bytes).max(1)
    }

    fn score(&self, misses: &[bool]) -> Score {
        let (mut missed, mut missed_bytes, mut bytes, mut reads) = (0_u64, 0, 0, 0);
        let counted = self.requests.iter().zip(misses).skip(self.warm_up);
        let requests = counted.len().max(1) as f64;
        for (&file, &misses) in counted {
            bytes += self.bytes[file as usize];
            if misses {
                missed += 1;
                missed_bytes += self.bytes[file as usize];
                reads += self.reads(file);
            }
        }
        Score {
            hits: 1.0 - missed as f64 / requests,
            byte_hits: 1.0 - missed_bytes as f64 / (bytes as f64).max(1.0),
            reads_per_request: reads as f64 / requests,
        }
    }
}

struct OfLru<'a> {
    lru: Lru,
    bytes: &'a [u64],
}

impl Cache for OfLru<'_> {
    fn request(&mut self, file: u32, _: u64) -> bool {
        let is_hit = self.lru.touch(file);
        if !is_hit {
            self.lru.insert(file, |file| self.bytes[file as usize]);
        }
        is_hit
    }
}
