//! The part of a table that a client's word may be in. The hash is keyed, so no client can choose its set.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// How many words a set has.
const WORDS: usize = 8;

/// The words of the set of this hash. The table's length is a power of two, and that of a set at least.
pub(super) fn set_of(table: &[AtomicU64], hash: u64) -> Range<usize> {
    debug_assert!(table.len().is_power_of_two() && table.len() >= WORDS, "the mask needs that");
    let start = (hash as usize).wrapping_mul(WORDS) & (table.len() - 1);
    start..start + WORDS
}
