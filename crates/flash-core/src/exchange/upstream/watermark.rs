//! How far a program may be ahead of its client, and a client's body ahead of its program: a little in any case, and
//! further as long as there is memory for that. A program that serves many clients, one after the other, shall not wait for
//! one who is slow.

use std::sync::Arc;

use crate::memory_budget::{Budget, Reservation};

/// Of an answer, what a client may leave in any case.
const ANSWER_BYTES: usize = 64 << 10;
/// Of a body, what may be in memory in any case.
const BODY_BYTES: usize = 16 << 10;
/// More is reserved in steps of this,
const STEP_BYTES: u64 = 64 << 10;
/// up to such a part of what there is for all.
const PART: u64 = 64;

#[derive(Debug)]
pub(super) struct Watermark {
    /// What needs no room.
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

    /// Whether a program whose client has left so much may go on.
    pub(super) fn allows(&self, waiting_bytes: usize) -> bool {
        waiting_bytes <= self.bytes_max()
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes + self.reserved_bytes() as usize
    }

    /// For whoever takes the bytes that it was made for.
    pub(super) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reservation.take()
    }

    /// Makes a step more of room, if there is any to be had.
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
