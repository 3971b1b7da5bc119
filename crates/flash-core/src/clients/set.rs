//! The part of a table that a client's word may be in. The hash is keyed, so no client can choose its set.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that all threads and processes of the server share, zero at first.
pub type Words = Arc<dyn AsRef<[AtomicU64]> + Send + Sync>;

/// How many words a set has.
const WORDS: usize = 8;

/// The words of the set of this hash. The table's length is a power of two, and that of a set at least.
pub(super) fn set_of(table: &[AtomicU64], hash: u64) -> Range<usize> {
    debug_assert!(table.len().is_power_of_two() && table.len() >= WORDS, "the mask needs that");
    let start = (hash as usize).wrapping_mul(WORDS) & (table.len() - 1);
    start..start + WORDS
}

/// The client's word, what it holds, and how far its time is ahead of now. If the client has none, the word that it gets: the one whose
/// time is least ahead. A time that seems further ahead than `ahead_max` has passed long ago.
pub(super) fn find<const TIME_BITS: u32>(
    set: &[AtomicU64],
    hash: u64,
    now: u64,
    ahead_max: u64,
) -> (&AtomicU64, u64, u64) {
    let (tag, time) = (hash >> TIME_BITS, (1 << TIME_BITS) - 1);
    let ahead =
        |word: u64| Some(word.wrapping_sub(now) & time).filter(|ahead| *ahead <= ahead_max).unwrap_or(0);
    let mut least: Option<(&AtomicU64, u64)> = None;
    for place in set {
        let word = place.load(Ordering::Relaxed);
        if word >> TIME_BITS == tag && ahead(word) > 0 {
            return (place, word, ahead(word));
        }
        if least.is_none_or(|(_, other)| ahead(word) < ahead(other)) {
            least = Some((place, word));
        }
    }
    let (place, word) = least.expect("a set has words");
    (place, word, 0)
}
