//! How much of a response or a request body may be buffered: a little in any case, and more while there is memory. A
//! program that serves one client after the other does not have to wait for a slow one.

use std::sync::Arc;

use crate::memory_budget::{Budget, Reservation};

/// How much of a response may wait for its client in any case.
const ANSWER_BYTES: usize = 64 << 10;
/// How much of a body may be in memory in any case.
pub(super) const BODY_BYTES: usize = 16 << 10;
/// More memory is reserved in steps of this size,
const STEP_BYTES: u64 = 64 << 10;
/// up to this part of the whole budget.
const PART: u64 = 64;

#[derive(Debug)]
pub(super) struct Watermark {
    /// What needs no reservation.
    bytes: usize,
    reservation: Option<Reservation>,
}

impl Watermark {
    pub(super) fn of_response() -> Self {
        Self { bytes: ANSWER_BYTES, reservation: None }
    }

    pub(super) fn of_body() -> Self {
        Self { bytes: BODY_BYTES, reservation: None }
    }

    /// Whether the upstream may go on with this many bytes unsent.
    pub(super) fn allows(&self, waiting_bytes: usize) -> bool {
        waiting_bytes <= self.bytes_max()
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes + self.reserved_bytes() as usize
    }

    /// Moves the reservation to the owner of the bytes.
    pub(super) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Reserves one more step, if the budget allows it.
    pub(super) fn grow(&mut self, answers: &Arc<Budget>) {
        if self.reserved_bytes() + STEP_BYTES > answers.bytes_max() / PART {
            return;
        }
        match &mut self.reservation {
            Some(room) => _ = room.grow(STEP_BYTES),
            None => self.reservation = answers.reserve(STEP_BYTES),
        }
    }

    fn reserved_bytes(&self) -> u64 {
        self.reservation.as_ref().map_or(0, Reservation::bytes)
    }
}
