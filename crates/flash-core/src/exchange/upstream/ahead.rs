//! How far a program may be ahead of its client, and a client's body ahead of its program: a little in any case, and
//! further as long as there is memory for that. A program that serves many clients, one after the other, shall not wait for
//! one who is slow.

use std::sync::Arc;

use crate::room::{Account, Room};

/// Of an answer, what a client may leave in any case.
const ANSWER_BYTES: usize = 64 << 10;
/// Of a body, what may be in memory in any case.
const BODY_BYTES: usize = 16 << 10;
/// Room for more is made in steps of this,
const STEP_BYTES: u64 = 64 << 10;
/// up to such a part of what there is for all.
const PART: u64 = 64;

#[derive(Debug)]
pub(super) struct Ahead {
    /// What needs no room.
    bytes: usize,
    room: Option<Room>,
}

impl Ahead {
    pub(super) fn of_answer() -> Self {
        Self { bytes: ANSWER_BYTES, room: None }
    }

    pub(super) fn of_body() -> Self {
        Self { bytes: BODY_BYTES, room: None }
    }

    /// Whether a program whose client has left so much may go on.
    pub(super) fn allows(&self, waiting_bytes: usize) -> bool {
        waiting_bytes <= self.bytes_max()
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes + self.room_bytes() as usize
    }

    /// For whoever takes the bytes that it was made for.
    pub(super) fn take_room(&mut self) -> Option<Room> {
        self.room.take()
    }

    /// Makes a step more of room, if there is any to be had.
    pub(super) fn grow(&mut self, answers: &Arc<Account>) {
        if self.room_bytes() + STEP_BYTES > answers.bytes_max() / PART {
            return;
        }
        match &mut self.room {
            Some(room) => _ = room.grow(STEP_BYTES),
            None => self.room = answers.room(STEP_BYTES),
        }
    }

    fn room_bytes(&self) -> u64 {
        self.room.as_ref().map_or(0, Room::bytes)
    }
}
