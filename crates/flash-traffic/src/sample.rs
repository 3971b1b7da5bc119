//! Draws from a seed: which file a made-up client asks for next, and how large a made-up file is. What the draws are put
//! together to is the workloads' affair.

mod recency;
mod sizes;
mod stack;
#[cfg(test)]
mod tests;
mod zipf;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

pub use self::recency::Recency;
pub use self::sizes::{SizeError, Sizes};
pub use self::stack::{Distances, LruStack};
pub use self::zipf::Zipf;

/// Where all draws come from.
pub type Generator = Xoshiro256PlusPlus;

/// The generator of a seed's `stream`. Streams of one seed, and those of neighbouring seeds, have nothing to do with each
/// other.
pub fn generator(seed: u64, stream: u64) -> Generator {
    Generator::seed_from_u64(mix(mix(seed).wrapping_add(stream)))
}

/// A permutation of all numbers in which neighbours lie far apart: the last steps of SplitMix64 (Steele et al., 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
