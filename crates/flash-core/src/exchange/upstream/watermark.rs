//! How much of a response or of a request's body may be in memory. One budget counts all of it. While the budget has room, a
//! program that serves one client after the other does not have to wait for a slow one.

use std::sync::Arc;

use crate::cache::memory_budget::{Budget, Reservation};

/// How much of a response may be ready to be sent.
pub(super) const RESPONSE_BYTES: usize = 64 << 10;
/// How much of a body needs no spool.
pub(super) const BODY_BYTES: usize = 16 << 10;
/// How much anything may have if the budget is used up.
const LEAST_BYTES: usize = 4 << 10;
/// A body, and what follows of a response, may have this part of the budget.
const PART: u64 = 64;

/// Bytes in memory, counted in the budget.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    counted: Option<Reservation>,
}

impl Watermark {
    /// So many bytes are in memory now.
    pub(super) fn count(&mut self, bytes: usize, answers: &Arc<Budget>) {
        match &mut self.counted {
            _ if bytes == 0 => self.counted = None,
            Some(counted) => counted.resize(bytes as u64),
            None => self.counted = Some(answers.reserve_beyond(bytes as u64)),
        }
    }

    /// How many bytes may be in memory: `most`, if the budget has room for them.
    pub(super) fn bytes_max(&self, most: usize, answers: &Budget) -> usize {
        let counted = self.counted.as_ref().map_or(0, Reservation::bytes);
        let left = usize::try_from(counted.saturating_add(answers.left_bytes())).unwrap_or(usize::MAX);
        left.min(most).max(LEAST_BYTES)
    }

    /// The same for a body, and for what follows of a response.
    pub(super) fn part_max(&self, answers: &Budget) -> usize {
        let part = usize::try_from(answers.bytes_max() / PART).unwrap_or(usize::MAX);
        self.bytes_max(part.max(BODY_BYTES), answers)
    }

    /// Moves the count to the new owner of the bytes.
    pub(super) fn take(&mut self) -> Option<Reservation> {
        self.counted.take()
    }
}
