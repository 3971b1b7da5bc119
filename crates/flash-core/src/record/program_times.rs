//! How long a program took for a request, as the loop saw it.

use crate::clock::Now;

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes {
    /// Until there was a process or a connection: the wait for a free one, and its start, or the time to connect.
    pub open_us: u64,
    /// From then on, until its first byte.
    pub first_byte_us: u64,
    /// From the beginning of the first to the last byte that it has sent so far.
    pub whole_us: u64,
}

/// When an exchange has asked for its program, and what has happened since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramClock {
    asked_us: Option<u64>,
    opened_us: Option<u64>,
    first_us: Option<u64>,
    last_us: u64,
}

impl ProgramClock {
    /// A second attempt belongs to the first.
    pub(crate) fn asks(&mut self, now: &Now) {
        self.asked_us.get_or_insert(now.us);
        self.last_us = now.us;
    }

    pub(crate) fn opens(&mut self, now: &Now) {
        (self.opened_us, self.last_us) = (Some(now.us), now.us);
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
        Some(ProgramTimes {
            open_us: opened.saturating_sub(asked),
            first_byte_us: first.saturating_sub(opened),
            whole_us: self.last_us.saturating_sub(asked),
        })
    }
}
