//! What a connection waits for, and until when.
//!
//! Times are handed in; a driver looks at [`Deadline::ms`] when it likes and calls back once that has passed.

use crate::site::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For the first byte of a next request.
    Idle,
    /// For the rest of a head.
    Head,
    /// For the rest of a body.
    Body,
    /// For the client to take what is sent.
    Send,
    /// For a job.
    Completion,
    /// For a program to begin, to take something, or to say something.
    Program,
    /// For the client to notice that it is over.
    Linger,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    waiting: Waiting,
    ms: u64,
    /// What moved since the deadline was set, for those that are about speed.
    bytes: u64,
}

/// How long a client's speed is watched before it is judged.
const SPEED_WINDOW_MS: u64 = 10_000;
const LINGER_MS: u64 = 2_000;

impl Default for Deadline {
    fn default() -> Self {
        Self { waiting: Waiting::Idle, ms: u64::MAX, bytes: 0 }
    }
}

impl Deadline {
    pub(crate) fn ms(&self) -> u64 {
        self.ms
    }

    pub(crate) fn is_for(&self, waiting: Waiting) -> bool {
        self.waiting == waiting
    }

    /// Begins to wait, or goes on with the same wait under the same deadline.
    pub(crate) fn wait(&mut self, waiting: Waiting, now_ms: u64, settings: &Settings) {
        // Being idle has no memory: each visit to it is a wait of its own.
        if self.waiting != waiting {
            self.start(waiting, now_ms, settings);
        }
    }

    /// The next job has a time of its own.
    pub(crate) fn job_ended(&mut self) {
        if self.waiting == Waiting::Completion {
            *self = Self::default();
        }
    }

    /// It has not been silent: the next wait for it begins anew.
    pub(crate) fn program_lives(&mut self) {
        if self.waiting == Waiting::Program {
            *self = Self::default();
        }
    }

    pub(crate) fn start(&mut self, waiting: Waiting, now_ms: u64, settings: &Settings) {
        let after_ms = match waiting {
            Waiting::Idle => settings.idle_timeout_ms,
            Waiting::Head => settings.head_timeout_ms,
            Waiting::Body | Waiting::Send => SPEED_WINDOW_MS,
            Waiting::Completion => settings.disk_deadline_ms,
            Waiting::Program => settings.program_silence_ms,
            Waiting::Linger => LINGER_MS,
        };
        *self = Self { waiting, ms: now_ms.saturating_add(after_ms), bytes: 0 };
    }

    pub(crate) fn progressed(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// What was waited for in vain. A client that kept its speed gets another window instead.
    pub(crate) fn expired(&mut self, now_ms: u64, settings: &Settings) -> Option<Waiting> {
        if now_ms < self.ms {
            return None;
        }
        let least = settings.bytes_per_second_min * SPEED_WINDOW_MS / 1000;
        if matches!(self.waiting, Waiting::Send | Waiting::Body) && self.bytes >= least {
            self.start(self.waiting, now_ms, settings);
            return None;
        }
        Some(self.waiting)
    }
}
