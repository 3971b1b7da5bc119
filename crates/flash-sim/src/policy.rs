//! What caches keep: policies to compare, on the same requests and with the same bytes.
//!
//! A policy sees requests in their order, and no time. The size of a file never changes. What a miss costs, and who waits for it, is
//! the [machine](crate::machine)'s.

mod belady;
mod cache;
mod chains;
mod compare;
mod flash;
mod lru;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod two_lists;
mod w_tinylfu;

pub use self::compare::{PolicyName, Replayed, Score};
pub use self::flash::{Flash, FlashLimits, Found};
pub use self::lru::Lru;
pub use self::two_lists::TwoLists;
