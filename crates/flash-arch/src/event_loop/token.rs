//! Tokens that a loop gives to its poller: the index of a slot, and a generation, because slots are used again.

use crate::poller::TOKEN_MAX;

/// The generation of tokens that belong to no connection.
pub(super) const NO_CONNECTION: u32 = ((TOKEN_MAX - 1) >> 32) as u32;
pub(super) const COMPLETIONS: u64 = token(NO_CONNECTION, u32::MAX as usize);

pub(super) const fn token(generation: u32, index: usize) -> u64 {
    (generation as u64) << 32 | index as u64
}

pub(super) const fn split(token: u64) -> (u32, usize) {
    ((token >> 32) as u32, token as u32 as usize)
}
