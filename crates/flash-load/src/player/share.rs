//! A thread's share of what all threads do.

use flash_traffic::Part;

/// One part of a number; the parts add up to it.
pub(super) fn share(all: u64, part: Part) -> u64 {
    let of = u64::from(part.of);
    all / of + u64::from(u64::from(part.index) < all % of)
}
