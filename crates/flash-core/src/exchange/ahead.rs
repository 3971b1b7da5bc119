//! How far a program may be ahead of its client: a little in any case, and further as long as there is memory for that. A
//! program that serves many clients, one after the other, shall not wait for one who is slow.

use std::sync::Arc;

use crate::room::{Account, Room};

/// Of an answer, what a client may leave in any case.
const BYTES: usize = 64 << 10;
/// Room for more is made in steps of this,
const STEP_BYTES: u64 = 64 << 10;
/// up to such a part of what there is for all.
const PART: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Ahead {
    room: Option<Room>,
}

impl Ahead {
    /// Whether a program whose client has left so much may go on.
    pub(super) fn allows(&self, waiting_bytes: usize) -> bool {
        waiting_bytes <= BYTES + self.room_bytes() as usize
    }

    /// Makes a step more of room, if there is any to be had.
    pub(super) fn grow(&mut self, answers: &Arc<Account>) {
        if self.room_bytes() + STEP_BYTES > answers.bytes_max() / PART {
            return;
        }
        match &mut self.room {
            Some(room) => room.grow(STEP_BYTES),
            None => self.room = answers.room(STEP_BYTES),
        }
    }

    fn room_bytes(&self) -> u64 {
        self.room.as_ref().map_or(0, Room::bytes)
    }
}
