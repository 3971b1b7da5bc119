//! The caches of a server: whose they are, and how they got warm.

use super::lru::Lru;
use super::memory::Division;
use crate::model::{Cache, Model};
use crate::parameters::{Caches as Whose, Parameters};

/// All data caches and all pathname caches.
#[derive(Debug)]
pub(super) struct Caches {
    data: Vec<Lru>,
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
        Caches {
            data: (0..division.data_caches).map(|_| Lru::new(data_bytes)).collect(),
            path: (0..path_caches).map(|_| Lru::new(parameters.server.path_entries.into())).collect(),
            bytes,
            entry_bytes: division.entry_bytes.round() as u64,
        }
    }

    pub(super) fn bytes(&self, file: u32) -> u64 {
        self.bytes[file as usize]
    }

    /// Whether the process finds the file, which is the newest from now on.
    pub(super) fn touch(&mut self, cache: Cache, process: u32, file: u32) -> bool {
        Caches::pick(self.of(cache), process).touch(file)
    }

    /// The same, but leaves no trace.
    pub(super) fn has_content(&self, process: u32, file: u32) -> bool {
        self.data[process as usize % self.data.len()].contains(file)
    }

    pub(super) fn keep(&mut self, cache: Cache, process: u32, file: u32) {
        match cache {
            Cache::Path => Caches::pick(&mut self.path, process).insert(file, |_| 1),
            Cache::Data => {
                let weigh = |file: u32| self.bytes[file as usize] + self.entry_bytes;
                Caches::pick(&mut self.data, process).insert(file, weigh);
            }
        }
    }

    /// Passes requests through the caches without time, assigned to the processes in turn, until LRU has evicted. After an
    /// eviction a cache holds the files that were requested last. That is its content after any number of requests.
    pub(super) fn warm(&mut self, requests: impl Iterator<Item = u32>) {
        let processes = self.path.len().max(self.data.len()) as u32;
        for (number, file) in requests.enumerate() {
            // Whether all are full is worth a look now and then only.
            if number.is_multiple_of(1024) && !self.any_is_cold() {
                return;
            }
            let process = number as u32 % processes;
            self.keep(Cache::Path, process, file);
            self.keep(Cache::Data, process, file);
        }
    }

    /// Whether one of them has never been full.
    pub(super) fn any_is_cold(&self) -> bool {
        self.path.iter().chain(&self.data).any(|lru| !lru.has_evicted())
    }

    /// Fills the cold part of the caches, at the old end, with files in the order of `ages`. `ages` lists files by the time of
    /// their last request, the latest first. If requests are independent, this is exact too. The time since the last request
    /// for an unseen file is exponential, whatever other requests were seen.
    pub(super) fn fill(&mut self, ages: &[u32]) {
        for path in self.path.iter_mut().filter(|lru| !lru.has_evicted()) {
            fill(path, ages, |_| 1);
        }
        for data in self.data.iter_mut().filter(|lru| !lru.has_evicted()) {
            fill(data, ages, |file| self.bytes[file as usize] + self.entry_bytes);
        }
    }

    /// Everything in the data caches: files, and bytes of content.
    pub(super) fn cached(&self) -> (u64, u64) {
        let files = self.data.iter().map(|lru| lru.len() as u64).sum();
        let used: u64 = self.data.iter().map(Lru::used).sum();
        (files, used - files * self.entry_bytes)
    }

    fn of(&mut self, cache: Cache) -> &mut [Lru] {
        match cache {
            Cache::Path => &mut self.path,
            Cache::Data => &mut self.data,
        }
    }

    /// A process's own, or the one that all share.
    fn pick(caches: &mut [Lru], process: u32) -> &mut Lru {
        let at = if caches.len() == 1 { 0 } else { process as usize };
        &mut caches[at]
    }
}

/// The oldest go in last, until the first that does not fit.
fn fill(lru: &mut Lru, order: &[u32], weigh: impl Fn(u32) -> u64) {
    for &file in order {
        if !lru.contains(file) && weigh(file) <= lru.capacity() && !lru.insert_oldest(file, &weigh) {
            return;
        }
    }
}
