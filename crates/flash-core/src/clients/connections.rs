//! The table of connections: a word for each client that has any.
//!
//! A word holds a part of the client's hash and a number. A word whose number is zero is free. If a set has no free word, the
//! connection is not counted. The table has twice as many words as there may be connections, so this is rare.

use std::sync::atomic::{AtomicU64, Ordering};

use super::set::set_of;

/// The client has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The number has 24 bits, and the hash the other 40.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Counts a connection. Returns the place of its client's word, unless the set is full.
pub(super) fn enter(words: &[AtomicU64], hash: u64, connections_max: u64) -> Result<Option<u32>, TooMany> {
    let range = set_of(words, hash);
    let (start, set) = (range.start, &words[range]);
    let tag = hash >> COUNT_BITS << COUNT_BITS;
    let connections_max = connections_max.min(COUNT);
    let is_clients = |word: u64| word & !COUNT == tag && word & COUNT > 0;
    loop {
        let own = set.iter().position(|place| is_clients(place.load(Ordering::SeqCst)));
        let free = || set.iter().position(|place| place.load(Ordering::SeqCst) & COUNT == 0);
        let Some(at) = own.or_else(free) else { return Ok(None) };
        let word = set[at].load(Ordering::SeqCst);
        let next = match word {
            _ if is_clients(word) && word & COUNT >= connections_max => return Err(TooMany),
            _ if is_clients(word) => word + 1,
            _ if word & COUNT == 0 => tag | 1,
            // Another client was faster.
            _ => continue,
        };
        if set[at].compare_exchange(word, next, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            continue;
        }
        // Another thread may have begun to count the same client in another word. In this order, one of the two sees it.
        let others = || set.iter().enumerate().filter(|(other, _)| *other != at);
        if next == tag | 1 && others().any(|(_, place)| is_clients(place.load(Ordering::SeqCst))) {
            leave(&set[at]);
            continue;
        }
        return Ok(Some((start + at) as u32));
    }
}

/// How many connections the client has.
pub(super) fn count(words: &[AtomicU64], hash: u64) -> u64 {
    let tag = hash >> COUNT_BITS << COUNT_BITS;
    let words = words[set_of(words, hash)].iter().map(|place| place.load(Ordering::Relaxed));
    words.filter(|word| word & !COUNT == tag).map(|word| word & COUNT).sum()
}

/// A connection of the word's client has ended.
pub(super) fn leave(word: &AtomicU64) {
    // A word is free as soon as its number is zero, whatever its hash.
    word.fetch_sub(1, Ordering::SeqCst);
}
