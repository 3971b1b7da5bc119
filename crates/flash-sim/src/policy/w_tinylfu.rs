//! W-TinyLFU (Einziger, Friedman and Manes, 2017): a window of one per cent, a segmented LRU, and an admission by frequency between
//! them.
//!
//! Frequencies are exact counts, halved now and then, where the real thing has a sketch: so this is as good as it can be.

use super::cache::Cache;
use super::chains::Chains;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// All counts are halved after so many requests for each file that the cache has room for.
const REQUESTS_PER_FILE: u64 = 10;
const COUNT_MAX: u8 = 15;

#[derive(Debug)]
pub(super) struct WTinyLfu {
    capacity: u64,
    queues: Chains<3>,
    counts: Vec<u8>,
    requests: u64,
    files: u64,
}

impl WTinyLfu {
    pub(super) fn new(capacity: u64) -> WTinyLfu {
        WTinyLfu { capacity, queues: Chains::new(), counts: Vec::new(), requests: 0, files: 0 }
    }

    fn window_bytes(&self) -> u64 {
        self.capacity / 100
    }

    fn main_bytes(&self) -> u64 {
        self.capacity - self.window_bytes()
    }

    fn count(&mut self, file: u32) {
        if self.counts.len() <= file as usize {
            self.counts.resize(file as usize + 1, 0);
        }
        let count = &mut self.counts[file as usize];
        *count = (*count + 1).min(COUNT_MAX);
        self.requests += 1;
        if self.requests >= REQUESTS_PER_FILE * self.files.max(100) {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.requests = 0;
        }
    }

    fn hit(&mut self, file: u32, queue: usize) {
        if queue == WINDOW {
            return self.queues.move_to(WINDOW, file);
        }
        self.queues.move_to(PROTECTED, file);
        // Four fifths of the main part are protected.
        while self.queues.bytes(PROTECTED) > self.main_bytes() / 5 * 4 {
            let oldest = self.queues.oldest(PROTECTED).expect("it has bytes");
            self.queues.move_to(PROBATION, oldest);
        }
    }

    /// Files that leave the window stay, if they are more frequent than those which they would replace.
    fn leave_window(&mut self) {
        while self.queues.bytes(WINDOW) > self.window_bytes() {
            let candidate = self.queues.oldest(WINDOW).expect("it has bytes");
            let bytes = self.queues.remove(candidate);
            self.files -= 1;
            if bytes <= self.main_bytes() && self.makes_room(candidate, bytes) {
                self.files += 1;
                self.queues.push(PROBATION, candidate, bytes);
            }
        }
    }

    fn makes_room(&mut self, candidate: u32, bytes: u64) -> bool {
        let main = |queues: &Chains<3>| queues.bytes(PROBATION) + queues.bytes(PROTECTED);
        while main(&self.queues) + bytes > self.main_bytes() {
            let victim = self.queues.oldest(PROBATION).or_else(|| self.queues.oldest(PROTECTED));
            let victim = victim.expect("only a cache with files is full");
            if self.counts[candidate as usize] <= self.counts[victim as usize] {
                return false;
            }
            self.queues.remove(victim);
            self.files -= 1;
        }
        true
    }
}

impl Cache for WTinyLfu {
    fn request(&mut self, file: u32, bytes: u64) -> bool {
        self.count(file);
        if let Some(queue) = self.queues.queue_of(file) {
            self.hit(file, queue);
            return true;
        }
        if bytes <= self.capacity {
            self.queues.push(WINDOW, file, bytes);
            self.files += 1;
            self.leave_window();
        }
        false
    }
}
