//! The client's two directions while an upstream answers: which of them would block, and whether the client sends more.

use crate::connection::want::Direction;

#[derive(Debug, Default)]
pub(super) struct ClientSide {
    /// The last attempt to read found nothing.
    pub(super) in_blocked: bool,
    /// The last attempt to write found no room.
    pub(super) out_blocked: bool,
    /// The client has shut down its side. It may still read the response.
    pub(super) has_ended: bool,
}

impl ClientSide {
    pub(super) fn ready(&mut self) {
        (self.in_blocked, self.out_blocked) = (false, false);
    }

    pub(super) fn blocked(&mut self, direction: Direction) {
        match direction {
            Direction::In => self.in_blocked = true,
            Direction::Out => self.out_blocked = true,
        }
    }
}
