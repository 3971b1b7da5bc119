//! The client's two directions while an upstream answers: which of them was found blocked, and whether it sends more.

use crate::want::Direction;

#[derive(Debug, Default)]
pub(super) struct Client {
    /// It has sent nothing more, when it was last tried.
    pub(super) in_blocked: bool,
    /// It took nothing more, when it was last tried.
    pub(super) out_blocked: bool,
    /// It closed its side, and may wait for the answer.
    pub(super) has_ended: bool,
}

impl Client {
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
