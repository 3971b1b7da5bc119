//! The table of rates: a word for each client that has used a part of a limit.
//!
//! A word holds a part of the client's hash and a time (the generic cell rate algorithm). At that time the client has all of its
//! limit again, and the word is free: the client may as well be unknown. If a set has no free word, the client that has used the
//! least of its limit is forgotten. A request that is refused changes nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::rate::{RECOVERY_US_MAX, Rate};
use super::set;

/// The time has 40 bits, and the hash the other 24.
const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;
/// Its unit is 16 µs, so it comes round in 203 days.
const UNIT_SHIFT: u32 = 4;
/// No client has used more than this. A time that seems to lie further ahead has passed long ago.
const USED_MAX: u64 = (2 * RECOVERY_US_MAX) >> UNIT_SHIFT;
/// So far apart the clocks of threads may be that count for the same client, if its requests come that slowly.
const APART_MAX: u64 = 250_000 >> UNIT_SHIFT;
/// So often another thread may be faster. After that the request is let through, because the word changes all the time.
const ATTEMPTS: usize = 8;

/// Counts a request in its set. The error is how many seconds the client has to wait.
pub(super) fn take(set: &[AtomicU64], rate: &Rate, now_us: u64, hash: u64) -> Result<(), u64> {
    let now = (now_us >> UNIT_SHIFT) & TIME;
    let (interval, burst) = (rate.interval_us >> UNIT_SHIFT, rate.burst);
    let tag = hash >> TIME_BITS << TIME_BITS;
    for _ in 0..ATTEMPTS {
        let (place, word, used) = set::find::<TIME_BITS>(set, hash, now, USED_MAX);
        // No more than all. The clock of the thread that has counted the last request may be ahead of this one.
        let used = used.min(interval * burst) + interval;
        // A client whose last request another thread has counted a moment later has not used more.
        let apart = APART_MAX.min(interval / 2);
        if let Some(over) = used.checked_sub(interval * burst).filter(|over| *over > apart) {
            return Err((over << UNIT_SHIFT).div_ceil(1_000_000));
        }
        let next = tag | ((now + used) & TIME);
        if place.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            break;
        }
    }
    Ok(())
}
