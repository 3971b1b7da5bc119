//! How often each name was requested lately: a doorkeeper and a count-min sketch, as in TinyLFU.
//!
//! The doorkeeper remembers part of the hash of a name that was requested once. So names that are never requested again do not
//! reach the sketch. There each name has a counter in each of four rows. Other names may share some of them, so the smallest
//! counts. The counters are halved over time, a few with each request: what was frequent long ago does not stay so.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const ROWS: u64 = 4;
/// Counters of a row, and names at the door, for each name that the cache may hold.
const COUNTERS_PER_NAME: usize = 2;
const COUNTERS_MIN: usize = 1 << 12;
const COUNTERS_MAX: usize = 1 << 24;
/// Counters of eight bits in a word.
const COUNTERS_PER_WORD: u64 = 8;
/// All counters are halved once in this many requests for each name that the cache may hold.
const HALVED_AFTER: u64 = 16;
const LOWER_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// Long enough for a name to be looked up, found on the disk and inserted.
const REQUESTS_PER_AGE: u64 = 1 << 12;

#[derive(Debug)]
pub(super) struct Frequencies {
    /// A name is at one of two places here.
    doorkeeper: Box<[AtomicU32]>,
    /// Eight counters in each; one row after the other.
    words: Box<[AtomicU64]>,
    /// The counters of a row, a power of two.
    width: u64,
    requests: AtomicU64,
    /// A word is halved after this many requests.
    interval: u64,
}

impl Frequencies {
    pub(super) fn new(names: usize) -> Self {
        let width = (names * COUNTERS_PER_NAME).clamp(COUNTERS_MIN, COUNTERS_MAX).next_power_of_two();
        let words = ROWS * width as u64 / COUNTERS_PER_WORD;
        Self {
            doorkeeper: std::iter::repeat_with(AtomicU32::default).take(width).collect(),
            words: std::iter::repeat_with(AtomicU64::default).take(words as usize).collect(),
            width: width as u64,
            requests: AtomicU64::new(0),
            interval: (HALVED_AFTER * names as u64 / words).max(1),
        }
    }

    /// Counts so many requests for the name.
    pub(super) fn add(&self, hash: u64, requests: u32) {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(self.interval) {
            self.halve(number / self.interval);
        }
        if requests < 2 && self.counted(hash) == 0 && !self.is_at_the_door(hash) {
            let place = self.doors(hash)[number as usize % 2];
            return self.doorkeeper[place].store(tag(hash), Ordering::Relaxed);
        }
        for (word, shift) in self.places(hash) {
            let old = word.load(Ordering::Relaxed);
            let counter = (old >> shift) as u8;
            let more = u64::from(counter.saturating_add(requests.min(255) as u8) - counter) << shift;
            // If another thread changes the word now, its request counts and this one does not.
            let _ = word.compare_exchange(old, old + more, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How often the name was requested, as far as it is known. At most 255.
    pub(super) fn of(&self, hash: u64) -> u8 {
        self.counted(hash).saturating_add(self.is_at_the_door(hash).into())
    }

    /// A number that changes now and then.
    pub(super) fn age(&self) -> u64 {
        self.requests.load(Ordering::Relaxed) / REQUESTS_PER_AGE
    }

    fn halve(&self, turn: u64) {
        let word = &self.words[turn as usize % self.words.len()];
        match word.load(Ordering::Relaxed) {
            // Memory that nobody has used stays with the kernel.
            0 => {}
            counters => word.store(counters >> 1 & LOWER_BITS, Ordering::Relaxed),
        }
    }

    fn counted(&self, hash: u64) -> u8 {
        let counters = self.places(hash).map(|(word, shift)| (word.load(Ordering::Relaxed) >> shift) as u8);
        counters.min().unwrap_or_default()
    }

    /// The word and the shift of the name's counter in each row.
    fn places(&self, hash: u64) -> impl Iterator<Item = (&AtomicU64, u32)> {
        // Two hashes make as many as there are rows.
        let step = hash.rotate_left(32) | 1;
        (0..ROWS).map(move |row| {
            let counter = row * self.width + self.in_row(hash.wrapping_add(row.wrapping_mul(step)));
            let word = &self.words[(counter / COUNTERS_PER_WORD) as usize];
            (word, (counter % COUNTERS_PER_WORD * 8) as u32)
        })
    }

    fn is_at_the_door(&self, hash: u64) -> bool {
        self.doors(hash).iter().any(|&place| self.doorkeeper[place].load(Ordering::Relaxed) == tag(hash))
    }

    fn doors(&self, hash: u64) -> [usize; 2] {
        [hash, hash.rotate_left(32)].map(|hash| self.in_row(hash) as usize)
    }

    /// A hash's place in a row. A division by the width would cost more than all else here.
    fn in_row(&self, hash: u64) -> u64 {
        hash & (self.width - 1)
    }
}

/// The part of a hash that the doorkeeper remembers. Places follow from other bits.
fn tag(hash: u64) -> u32 {
    (hash >> 20) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn frequent_names_have_high_counts_and_strangers_none() {
        let frequencies = Frequencies::new(1000);
        for request in 0..1000 {
            frequencies.add(hash(request % 100), 1);
        }
        assert!((0..100).all(|number| frequencies.of(hash(number)) >= 5), "half may have been taken away");
        let strangers = (1000..2000).filter(|&number| frequencies.of(hash(number)) > 0).count();
        assert!(strangers < 10, "{strangers} of 1000");
        frequencies.add(hash(7), u32::MAX);
        assert!(frequencies.of(hash(7)) >= 127, "it is full, and no neighbour has got anything");
        assert!((0..100).filter(|&number| frequencies.of(hash(number)) > 20).count() < 3);
    }

    #[test]
    fn a_flood_of_names_that_are_requested_once_counts_nothing() {
        let frequencies = Frequencies::new(1000);
        (0..100).for_each(|_| frequencies.add(hash(7), 1));
        let again = (1000..100_000).filter(|&number| {
            frequencies.add(hash(number), 1);
            frequencies.of(hash(number)) > 1
        });
        assert_eq!(again.count(), 0);
        frequencies.add(hash(99_999), 1);
        assert_eq!(frequencies.of(hash(99_999)), 2);
    }

    #[test]
    fn what_was_frequent_long_ago_is_forgotten() {
        let frequencies = Frequencies::new(1000);
        frequencies.add(hash(7), 200);
        let others = |from: u64| {
            (from..from + HALVED_AFTER * 1000).for_each(|n| frequencies.add(hash(n % 500 + 1000), 1))
        };
        others(0);
        let once = frequencies.of(hash(7));
        assert!((40..=120).contains(&once), "{once}");
        (0..8).for_each(&others);
        assert!(frequencies.of(hash(7)) < 5, "{}", frequencies.of(hash(7)));
    }
}
