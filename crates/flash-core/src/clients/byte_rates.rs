//! The table of byte rates: a word for each client that is using one.
//!
//! A word holds a part of the client's hash and a time (the generic cell rate algorithm): what all connections of the client have
//! reserved takes until then. Bytes are reserved before they are sent, and each reservation begins where the last one ends. So
//! connections in different loops and processes take turns without a queue, and the client's rate is exact, however many there
//! are. If a set has no free word, the client that has reserved least is forgotten.

use std::sync::atomic::{AtomicU64, Ordering};

use super::byte_rate::{ByteRate, RECOVERY_US_MAX};
use super::set;

/// The time has 48 bits, of microseconds, and the hash the other 16.
const TIME_BITS: u32 = 48;
const TIME: u64 = (1 << TIME_BITS) - 1;
/// No client has reserved more than this. A time that seems to lie further ahead has passed long ago.
const RESERVED_US_MAX: u64 = 2 * RECOVERY_US_MAX;
/// When to ask again if a client has reserved that much.
const FULL_US: u64 = 1_000_000;
/// So often another thread may be faster. After that the bytes are sent, because the word changes all the time.
const ATTEMPTS: usize = 64;

/// From when on the bytes may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    From(u64),
    /// Nothing is reserved. Ask again at this time.
    Full(u64),
}

/// Reserves bytes for a client of this set.
pub(super) fn reserve(set: &[AtomicU64], rate: &ByteRate, bytes: u64, now_us: u64, hash: u64) -> Reserved {
    let mut from_us = now_us;
    let reserve = |used: u64| {
        let used = used + rate.us(bytes);
        // The first reservation of a burst may be larger than the burst.
        from_us = now_us + used.saturating_sub(rate.burst_us());
        (used <= RESERVED_US_MAX).then_some(used)
    };
    match change(set, now_us, hash, reserve) {
        true => Reserved::From(from_us),
        false => Reserved::Full(now_us + FULL_US),
    }
}

/// Gives back bytes that were reserved and not sent.
pub(super) fn give_back(set: &[AtomicU64], rate: &ByteRate, bytes: u64, now_us: u64, hash: u64) {
    // Rounded down, so that nothing is gained.
    let us = rate.us(bytes).saturating_sub(1);
    change(set, now_us, hash, |used| used.checked_sub(us));
}

/// Changes how long what the client has reserved takes from now on. Returns whether `next` has said how.
fn change(set: &[AtomicU64], now_us: u64, hash: u64, mut next: impl FnMut(u64) -> Option<u64>) -> bool {
    let now = now_us & TIME;
    let tag = hash >> TIME_BITS << TIME_BITS;
    for _ in 0..ATTEMPTS {
        let (place, word, used) = set::find::<TIME_BITS>(set, hash, now, RESERVED_US_MAX);
        let Some(used) = next(used) else { return false };
        let changed = tag | (now.wrapping_add(used) & TIME);
        if place.compare_exchange_weak(word, changed, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            break;
        }
    }
    true
}
