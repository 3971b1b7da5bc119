//! The wire to a client, for tests.

/// How much the wire takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// How many bytes until it blocks; `None` if it never does.
    pub(super) room_bytes: Option<usize>,
    /// Bytes that the kernel has taken and the client has not acknowledged.
    pub(crate) unacknowledged: u64,
}

impl Socket {
    /// A wire that takes everything.
    pub(crate) const WIDE: Self = Self { room_bytes: None, unacknowledged: 0 };
    /// A wire that takes nothing until a test makes room.
    pub(crate) const FULL: Self = Self::with_room(0);

    pub(crate) const fn with_room(bytes: usize) -> Self {
        Self { room_bytes: Some(bytes), unacknowledged: 0 }
    }

    pub(super) fn most(&self) -> usize {
        self.room_bytes.unwrap_or(usize::MAX)
    }

    pub(super) fn take(&mut self, bytes: usize) {
        if let Some(room) = &mut self.room_bytes {
            *room -= bytes;
        }
    }
}
