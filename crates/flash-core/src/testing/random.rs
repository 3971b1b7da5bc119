//! Chance from a seed. The same seed makes the same choices, so that a failed simulation can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::thread;

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.within(0..from.len() as u64) as usize]
    }
}

/// Runs a simulation with fixed seeds, and with `FLASH_SEEDS` new ones (one, if that is not set). If `FLASH_SEED` is set,
/// runs that seed only.
pub(crate) fn each_seed(always: Range<u64>, simulation: impl Fn(u64)) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a seed is a number"));
    let seeds: Vec<u64> = match number("FLASH_SEED") {
        Some(seed) => vec![seed],
        None => {
            let new =
                (0..number("FLASH_SEEDS").unwrap_or(1)).map(|_| RandomState::new().build_hasher().finish());
            always.chain(new).collect()
        }
    };
    for seed in seeds {
        println!("seed {seed}");
        let failing = Failing(seed);
        simulation(seed);
        drop(failing);
    }
}

/// Prints the seed if its simulation panics.
struct Failing(u64);

impl Drop for Failing {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("this was seed {0}: run it again with FLASH_SEED={0}", self.0);
        }
    }
}
