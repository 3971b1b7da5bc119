//! What a connection waits for, and until when.
//!
//! Times are handed in; a driver looks at [`Deadline::ms`] when it likes and calls back once that has passed.
//!
//! A client's speed is judged as an average, by a credit of time. While Flash waits for the client the credit runs out;
//! each byte that the client acknowledges, or sends of a body, adds the time that the least speed allows for it. How
//! much a client has acknowledged within the last seconds would say nothing: its kernel takes at once what the receive
//! buffer holds, and then acknowledges no byte before the program has read most of them. So a client that reads at the
//! least speed keeps its connection whatever the buffers, while one that reads more slowly loses it as soon as what its
//! kernel took in advance is used up.

use crate::site::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// What was waited for has come, and the next wait has not begun.
    Nothing,
    /// For the first byte of a next request.
    Idle,
    /// For the same, while the kernel may still have much of the last response.
    Flush,
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

/// What a deadline that has passed means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// This has not come in time.
    Late(Waiting),
    /// The client takes too slowly what it has been sent.
    TooSlow,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    ms: u64,
    /// Bytes that the client's socket took, or that came of a body, and that are no part of the credit yet.
    uncounted_bytes: u64,
    /// How long the client may be silent, as of the last time that Flash waited for it.
    credit_ms: u32,
    /// So much of the credit is an advance on the bytes that follow.
    advance_ms: u16,
    waiting: Waiting,
}

/// The credit of a client that has not moved a byte.
const CREDIT_MS: u32 = 10_000;
/// So much of it the first bytes do not add to, because a client that moves some is not one that is about to begin.
const ADVANCE_MS: u16 = 6_000;
/// No credit is larger: that is how long TCP itself waits for a peer that does not answer.
pub(crate) const CREDIT_MS_MAX: u32 = 15 * 60_000;
const LINGER_MS: u64 = 2_000;
const FLUSH_LOOK_MS: u64 = 10_000;
/// Fewer bytes of a response the kernel may deliver alone.
pub(crate) const FLUSH_BYTES: u64 = 256 << 10;

impl Default for Deadline {
    fn default() -> Self {
        Self {
            ms: u64::MAX,
            uncounted_bytes: 0,
            credit_ms: CREDIT_MS,
            advance_ms: ADVANCE_MS,
            waiting: Waiting::Nothing,
        }
    }
}

impl Deadline {
    pub(crate) fn ms(&self) -> u64 {
        self.ms
    }

    pub(crate) fn is_for(&self, waiting: Waiting) -> bool {
        self.waiting == waiting
    }

    /// Whether the kernel may have so much of what was sent that the client's speed matters still.
    pub(crate) fn may_have_to_flush(&self) -> bool {
        self.uncounted_bytes > FLUSH_BYTES
    }

    /// Since when the client of a kept connection, or of a new one, has been silent.
    pub(crate) fn silent_since_ms(&self, settings: &Settings) -> u64 {
        let waited_ms = match self.waiting {
            Waiting::Head => settings.head_timeout_ms,
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => LINGER_MS,
            _ => settings.idle_timeout_ms,
        };
        self.ms.saturating_sub(waited_ms)
    }

    /// Begins to wait, or goes on with the same wait under the same deadline.
    pub(crate) fn wait(&mut self, waiting: Waiting, now_ms: u64, settings: &Settings) {
        let goes_on = self.waiting == waiting || (self.waiting, waiting) == (Waiting::Flush, Waiting::Idle);
        if !goes_on {
            self.start(waiting, now_ms, settings);
        }
    }

    /// The next job has a time of its own, unless this one stood still.
    pub(crate) fn job_ended(&mut self, stands_still: bool) {
        if !stands_still {
            self.ended(Waiting::Completion);
        }
    }

    /// It has not been silent: the next wait for it begins anew.
    pub(crate) fn program_lives(&mut self) {
        self.ended(Waiting::Program);
    }

    fn ended(&mut self, waiting: Waiting) {
        if self.waiting == waiting {
            (self.waiting, self.ms) = (Waiting::Nothing, u64::MAX);
        }
    }

    pub(crate) fn start(&mut self, waiting: Waiting, now_ms: u64, settings: &Settings) {
        match self.waiting {
            Waiting::Send | Waiting::Body => {
                self.credit_ms = self.ms.saturating_sub(now_ms).min(CREDIT_MS_MAX.into()) as u32;
            }
            // Each request begins with some credit at least.
            Waiting::Idle | Waiting::Flush | Waiting::Head => {
                let missing_ms = CREDIT_MS.saturating_sub(self.credit_ms);
                self.credit_ms += missing_ms;
                self.advance_ms = (u32::from(self.advance_ms) + missing_ms).min(ADVANCE_MS.into()) as u16;
            }
            _ => {}
        }
        self.waiting = waiting;
        let after_ms = match waiting {
            Waiting::Nothing => u64::MAX,
            Waiting::Idle if self.may_have_to_flush() => {
                self.waiting = Waiting::Flush;
                self.flush_ms(settings)
            }
            Waiting::Idle => settings.idle_timeout_ms,
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Head => settings.head_timeout_ms,
            Waiting::Body | Waiting::Send => self.credit_ms.into(),
            Waiting::Completion => settings.disk_deadline_ms,
            Waiting::Program => settings.program_silence_ms,
            Waiting::Linger => LINGER_MS,
        };
        self.ms = now_ms.saturating_add(after_ms);
    }

    /// The client's socket took so many bytes, or so many came of a body.
    pub(crate) fn progressed(&mut self, bytes: u64) {
        self.uncounted_bytes += bytes;
    }

    /// What was waited for in vain. `unacknowledged` tells how many bytes the client's socket took that the client has not
    /// acknowledged; where the client has credit left, the deadline is a later one.
    pub(crate) fn expired(
        &mut self,
        now_ms: u64,
        settings: &Settings,
        unacknowledged: impl FnOnce() -> u64,
    ) -> Option<Expired> {
        if now_ms < self.ms {
            return None;
        }
        let waited_ms = match self.waiting {
            Waiting::Nothing | Waiting::Idle | Waiting::Head | Waiting::Completion | Waiting::Program => {
                return Some(Expired::Late(self.waiting));
            }
            Waiting::Send | Waiting::Body => self.credit_ms.into(),
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => LINGER_MS,
        };
        let since_ms = self.ms.saturating_sub(waited_ms);
        let unacknowledged = unacknowledged();
        self.count(unacknowledged, now_ms - since_ms, settings);
        match self.waiting {
            Waiting::Linger if unacknowledged == 0 => return Some(Expired::Late(Waiting::Linger)),
            Waiting::Flush if unacknowledged == 0 => {
                self.waiting = Waiting::Idle;
                self.ms = since_ms.saturating_add(settings.idle_timeout_ms);
                return (self.ms <= now_ms).then_some(Expired::Late(Waiting::Idle));
            }
            Waiting::Body if self.credit_ms == 0 => {
                // It is told so, and may take its time for that.
                self.ms = now_ms.saturating_add(CREDIT_MS.into());
                return Some(Expired::Late(Waiting::Body));
            }
            _ if self.credit_ms == 0 => return Some(Expired::TooSlow),
            _ => {}
        }
        let after_ms = match self.waiting {
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => LINGER_MS,
            _ => self.credit_ms.into(),
        };
        self.ms = now_ms.saturating_add(after_ms);
        None
    }

    /// Takes the time that has passed off the credit, and adds what the client has moved meanwhile.
    fn count(&mut self, unacknowledged: u64, passed_ms: u64, settings: &Settings) {
        let moved = self.uncounted_bytes.saturating_sub(unacknowledged);
        self.uncounted_bytes -= moved;
        let earned_ms = match settings.bytes_per_second_min {
            0 => u64::MAX,
            least => moved.saturating_mul(1000) / least,
        };
        let paid_back_ms = earned_ms.min(self.advance_ms.into());
        self.advance_ms -= paid_back_ms as u16;
        let added_ms = earned_ms - paid_back_ms;
        let credit_ms = u64::from(self.credit_ms).saturating_add(added_ms).saturating_sub(passed_ms);
        self.credit_ms = credit_ms.min(CREDIT_MS_MAX.into()) as u32;
    }

    /// How long the client may go on taking a response before it is looked at whether it does.
    fn flush_ms(&self, settings: &Settings) -> u64 {
        FLUSH_LOOK_MS.min(settings.idle_timeout_ms).min(self.credit_ms.into())
    }
}
