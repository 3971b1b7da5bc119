//! The caches of a server: whose they are, and how they got warm.

use super::content::{ContentCache, Weights};
use super::memory::Division;
use crate::engine::{Time, from_ms};
use crate::model::{Cache, Model};
use crate::parameters::{Architecture, Caches as Whose, Parameters};
use crate::policy::{Found, Lru};

/// All data caches and all pathname caches.
#[derive(Debug)]
pub(super) struct Caches {
    data: Vec<ContentCache>,
    path: Vec<Lru>,
    /// Of every file.
    bytes: Vec<u64>,
    entry_bytes: u64,
}

impl Caches {
    pub(super) fn new(
        parameters: &Parameters,
        model: &Model,
        division: &Division,
        bytes: Vec<u64>,
    ) -> Caches {
        let path_caches = match model.caches {
            Whose::Shared => 1,
            Whose::Replicated | Whose::Private => model.processes,
        };
        let data_bytes = (division.caches_bytes / f64::from(division.data_caches)) as u64;
        let server = &parameters.server;
        let file_cache_bytes = server.file_cache_mb.map(|mb| (mb * 1e6) as u64);
        let flash = (file_cache_bytes, server.path_entries as usize);
        let parts = match parameters.architecture {
            Architecture::Mp => (1, model.processes as usize),
            _ => (parameters.machine.processors as usize, 1),
        };
        let data = || ContentCache::new(server.content, data_bytes, flash, parts);
        Caches {
            data: (0..division.data_caches).map(|_| data()).collect(),
            path: (0..path_caches).map(|_| Lru::new(parameters.server.path_entries.into())).collect(),
            bytes,
            entry_bytes: division.entry_bytes.round() as u64,
        }
    }

    pub(super) fn bytes(&self, file: u32) -> u64 {
        self.bytes[file as usize]
    }

    /// Whether the process knows the name, which is the newest from now on.
    pub(super) fn knows_name(&mut self, process: u32, file: u32) -> bool {
        pick(&mut self.path, process).touch(file)
    }

    /// Where the process finds the content.
    pub(super) fn look(&mut self, process: u32, file: u32, now: Time) -> Found {
        let weights = Weights { bytes: &self.bytes, entry_bytes: self.entry_bytes, now };
        pick(&mut self.data, process).look(process, file, weights)
    }

    /// The same, but leaves no trace.
    pub(super) fn has_content(&self, process: u32, file: u32) -> bool {
        self.data[process as usize % self.data.len()].contains(process, file)
    }

    /// A disk begins to read the file for the process.
    pub(super) fn begin_read(&mut self, process: u32, file: u32, now: Time) {
        let weights = Weights { bytes: &self.bytes, entry_bytes: self.entry_bytes, now };
        pick(&mut self.data, process).begin_read(file, weights);
    }

    pub(super) fn keep(&mut self, cache: Cache, process: u32, file: u32, now: Time) {
        match cache {
            Cache::Path => pick(&mut self.path, process).insert(file, |_| 1),
            Cache::Data => {
                let weights = Weights { bytes: &self.bytes, entry_bytes: self.entry_bytes, now };
                pick(&mut self.data, process).keep(process, file, weights);
            }
        }
    }

    /// Passes requests through the caches without time, assigned to the processes in turn, until LRU has evicted. After an
    /// eviction such a cache holds the files that were requested last. That is its content after any number of requests. Other
    /// policies see all of the requests, ten to a millisecond.
    pub(super) fn warm(&mut self, requests: impl Iterator<Item = u32>) {
        let processes = self.path.len().max(self.data.len()) as u32;
        for (number, file) in requests.enumerate() {
            // Whether all are full is worth a look now and then only.
            if number.is_multiple_of(1024) && !self.any_is_cold() {
                return;
            }
            let process = number as u32 % processes;
            let now = from_ms(number as f64 / 10.0);
            self.keep(Cache::Path, process, file, now);
            if self.look(process, file, now).is_left_to_helpers() {
                self.keep(Cache::Data, process, file, now);
            }
        }
    }

    /// Whether one of them would be warmer after more requests.
    pub(super) fn any_is_cold(&self) -> bool {
        self.path.iter().any(|lru| !lru.has_evicted()) || self.data.iter().any(ContentCache::is_cold)
    }

    /// Fills the cold part of LRU caches, at the old end, with files in the order of `ages`. `ages` lists files by the time of
    /// their last request, the latest first. If requests are independent, this is exact too. The time since the last request
    /// for an unseen file is exponential, whatever other requests were seen.
    pub(super) fn fill(&mut self, ages: &[u32]) {
        for path in self.path.iter_mut().filter(|lru| !lru.has_evicted()) {
            fill(path, ages, |_| 1);
        }
        let weights = Weights { bytes: &self.bytes, entry_bytes: self.entry_bytes, now: 0 };
        for data in &mut self.data {
            if let ContentCache::Lru(lru) = data
                && !lru.has_evicted()
            {
                fill(lru, ages, |file| weights.weight(file));
            }
        }
    }

    /// Everything in the data caches: files, and bytes of content.
    pub(super) fn cached(&self) -> (u64, u64) {
        let sums = self.data.iter().map(ContentCache::used);
        let (files, used) = sums.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        (files, used.saturating_sub(files * self.entry_bytes))
    }
}

/// A process's own, or the one that all share.
fn pick<T>(caches: &mut [T], process: u32) -> &mut T {
    let at = if caches.len() == 1 { 0 } else { process as usize };
    &mut caches[at]
}

/// The oldest go in last, until the first that does not fit.
fn fill(lru: &mut Lru, order: &[u32], weigh: impl Fn(u32) -> u64) {
    for &file in order {
        if !lru.contains(file) && weigh(file) <= lru.capacity() && !lru.insert_oldest(file, &weigh) {
            return;
        }
    }
}
