//! How long a program took for a request, as the loop saw it.

use std::time::Duration;

use crate::clock::Now;

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes {
    /// The wait for a free process, or for a server with room.
    pub queue_us: u64,
    /// Then, until its process had started, or it was connected to.
    pub connect_us: u64,
    /// From then on, until its first byte.
    pub first_byte_us: u64,
    /// In all, to the last byte that it has sent so far.
    pub whole_us: u64,
}

/// When an exchange has asked for its program, and what has happened since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramClock {
    asked_us: Option<u64>,
    opened_us: Option<u64>,
    queue_us: u64,
    first_us: Option<u64>,
    last_us: u64,
}

impl ProgramClock {
    /// A second attempt belongs to the first.
    pub(crate) fn asks(&mut self, now: &Now) {
        self.asked_us.get_or_insert(now.us);
        self.last_us = now.us;
    }

    /// It was `queued` for so long.
    pub(crate) fn opens(&mut self, queued: Duration, now: &Now) {
        (self.opened_us, self.last_us) = (Some(now.us), now.us);
        self.queue_us += queued.as_micros() as u64;
    }

    /// The program has sent bytes.
    pub(crate) fn receives(&mut self, now: &Now) {
        self.first_us.get_or_insert(now.us);
        self.last_us = now.us;
    }

    /// `None` if no program was opened.
    pub(crate) fn times(&self) -> Option<ProgramTimes> {
        let (asked, opened) = (self.asked_us?, self.opened_us?);
        let first = self.first_us.unwrap_or(self.last_us);
        let open_us = opened.saturating_sub(asked);
        let queue_us = self.queue_us.min(open_us);
        Some(ProgramTimes {
            queue_us,
            connect_us: open_us - queue_us,
            first_byte_us: first.saturating_sub(opened),
            whole_us: self.last_us.saturating_sub(asked),
        })
    }
}
