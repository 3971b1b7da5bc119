//! The last streams that this side has ended before the client did. What still arrives for them is dropped.

const MOST: usize = 32;

#[derive(Debug)]
pub(super) struct LeftStreams {
    ids: [u32; MOST],
    next: usize,
}

impl LeftStreams {
    pub(super) fn new() -> Self {
        Self { ids: [0; MOST], next: 0 }
    }

    /// Adds a stream in place of the oldest one.
    pub(super) fn add(&mut self, id: u32) {
        self.ids[self.next] = id;
        self.next = (self.next + 1) % MOST;
    }

    pub(super) fn contain(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }
}
