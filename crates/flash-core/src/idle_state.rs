//! What another process needs to go on with an idle connection. Its socket travels beside it.

use crate::deadline::Deadline;

/// The state of a connection between two requests, as bytes for the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState([u8; Deadline::BYTES]);

impl IdleState {
    /// `None` if these are not the bytes of a state.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self).filter(|state| state.deadline().is_some())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// When the connection is to be looked at, in the server's milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        self.deadline().map_or(0, |deadline| deadline.ms())
    }

    pub(crate) fn with(deadline: &Deadline) -> Self {
        Self(deadline.to_bytes())
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        Deadline::from_bytes(&self.0)
    }
}
