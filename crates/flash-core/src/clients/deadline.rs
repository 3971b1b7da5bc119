//! What a connection waits for, and until when.
//!
//! This module reads no clock. A driver looks at [`Deadline::ms`], and calls back once that time has passed.
//!
//! A client's speed is judged as an average, by a credit of time. The credit runs out while Flash waits for the client.
//! Each byte that the client acknowledges, or sends of a body, adds time at the minimum rate.
//!
//! The acknowledgements of the last seconds alone would say nothing. A client's kernel accepts at once what its receive
//! buffer holds. Then it acknowledges nothing until the program has read most of the buffer. With a credit, a client that
//! reads at the minimum rate keeps its connection, whatever its buffers. A slower client loses its connection once it has
//! used up what its kernel took in advance.

use crate::connection::evictable::{BEHIND_MS, Evictable};
use crate::server::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The last wait is over, and the next one has not begun.
    Nothing,
    /// For the first byte of the next request.
    Idle,
    /// The same, while the kernel may still hold much of the last response.
    Flush,
    /// For a new client's first byte, while the server stops.
    LastRequest,
    /// For the rest of a head.
    Head,
    /// For the rest of a body.
    Body,
    /// For the client to read what is sent.
    Send,
    /// For a job.
    Completion,
    /// For the client to close, or to end its request, after its [answer](super::linger) has been sent.
    Linger,
}

/// What it means that a deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// This event has not come in time.
    Late(Waiting),
    /// The client reads the response too slowly.
    TooSlow,
}

#[derive(Debug)]
pub(crate) struct Deadline {
    ms: u64,
    /// Bytes that were sent or received, and that the credit does not include yet.
    uncounted_bytes: u64,
    /// How long the client may be silent, as of the last wait for it.
    credit_ms: u32,
    /// This part of the credit is an advance on the next bytes.
    advance_ms: u16,
    waiting: Waiting,
    /// The client has gone on sending after its answer.
    lingers_on: bool,
}

/// The credit of a client that has moved no byte yet.
const CREDIT_MS: u32 = 10_000;
/// The first bytes pay back this part of the credit: a client that has moved bytes needs no time to begin.
const ADVANCE_MS: u16 = 6_000;
/// The largest credit. TCP itself waits this long for a peer that does not answer.
pub(crate) const CREDIT_MS_MAX: u32 = 15 * 60_000;
/// How long a client may be silent after its answer, and after what it has sent since: nginx's `lingering_timeout`.
const LINGER_MS: u64 = 2_000;
const LINGER_ON_MS: u64 = 5_000;
/// How long the first request of a new client may take to arrive while the server stops.
const LAST_REQUEST_MS: u64 = 100;
const FLUSH_LOOK_MS: u64 = 10_000;
/// The kernel may deliver fewer bytes of a response without Flash.
pub(crate) const FLUSH_BYTES: u64 = 256 << 10;

impl Default for Deadline {
    fn default() -> Self {
        Self {
            ms: u64::MAX,
            uncounted_bytes: 0,
            credit_ms: CREDIT_MS,
            advance_ms: ADVANCE_MS,
            waiting: Waiting::Nothing,
            lingers_on: false,
        }
    }
}

impl Deadline {
    /// The length of [`Deadline::to_bytes`].
    pub(crate) const BYTES: usize = 8 + 8 + 4 + 2 + 1;

    pub(crate) fn ms(&self) -> u64 {
        self.ms
    }

    /// For another process. A wait of an idle connection goes on there, and any other begins anew.
    pub(crate) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let waiting = match self.waiting {
            Waiting::Idle => 1,
            Waiting::Flush => 2,
            Waiting::Head => 3,
            _ => 0,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.ms.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.uncounted_bytes.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.credit_ms.to_ne_bytes());
        bytes[20..22].copy_from_slice(&self.advance_ms.to_ne_bytes());
        bytes[22] = waiting;
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (ms, rest) = bytes.split_first_chunk()?;
        let (uncounted_bytes, rest) = rest.split_first_chunk()?;
        let (credit_ms, rest) = rest.split_first_chunk()?;
        let (advance_ms, rest) = rest.split_first_chunk()?;
        let waiting = match rest {
            [0] => Waiting::Nothing,
            [1] => Waiting::Idle,
            [2] => Waiting::Flush,
            [3] => Waiting::Head,
            _ => return None,
        };
        Some(Self {
            ms: u64::from_ne_bytes(*ms),
            uncounted_bytes: u64::from_ne_bytes(*uncounted_bytes),
            credit_ms: u32::from_ne_bytes(*credit_ms),
            advance_ms: u16::from_ne_bytes(*advance_ms),
            waiting,
            lingers_on: false,
        })
    }

    pub(crate) fn is_for(&self, waiting: Waiting) -> bool {
        self.waiting == waiting
    }

    /// Whether the kernel may hold so much that the client's speed still matters.
    pub(crate) fn may_have_to_flush(&self) -> bool {
        self.uncounted_bytes > FLUSH_BYTES
    }

    /// Since when the client of an idle connection, or of a new one, has been silent.
    pub(crate) fn silent_since_ms(&self, settings: &Settings) -> u64 {
        let waited_ms = match self.waiting {
            Waiting::Head => settings.head_timeout_ms,
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => self.linger_ms(),
            Waiting::LastRequest => LAST_REQUEST_MS,
            _ => settings.idle_timeout_ms,
        };
        self.ms.saturating_sub(waited_ms)
    }

    /// The client keeps the server waiting, and has moved too little in the meantime. `unacknowledged` returns how many sent bytes it
    /// has not acknowledged.
    pub(crate) fn behind(
        &self,
        now_ms: u64,
        settings: &Settings,
        unacknowledged: impl FnOnce() -> u64,
    ) -> Option<Evictable> {
        let waited_ms = match self.waiting {
            Waiting::Body | Waiting::Send => self.credit_ms.into(),
            Waiting::Linger => self.linger_ms(),
            _ => return None,
        };
        let since_ms = self.ms.saturating_sub(waited_ms);
        if since_ms.saturating_add(BEHIND_MS) > now_ms {
            return None;
        }
        let moved = self.uncounted_bytes.saturating_sub(unacknowledged());
        let since_ms = since_ms.saturating_add(earned_ms(moved, settings));
        (since_ms.saturating_add(BEHIND_MS) <= now_ms).then_some(Evictable::Behind(since_ms))
    }

    /// Whether a new client, which has sent nothing, may still send a request to a server that stops. A close would reset the
    /// connection of a client whose request is on its way.
    pub(crate) fn may_send_last_request(&self, now_ms: u64, settings: &Settings) -> bool {
        let is_new = matches!(self.waiting, Waiting::Head | Waiting::LastRequest);
        is_new && now_ms < self.silent_since_ms(settings) + LAST_REQUEST_MS
    }

    /// Begins a wait. If the same wait goes on, its deadline stays.
    pub(crate) fn wait(&mut self, waiting: Waiting, now_ms: u64, settings: &Settings) {
        let goes_on = self.waiting == waiting || (self.waiting, waiting) == (Waiting::Flush, Waiting::Idle);
        if !goes_on {
            self.start(waiting, now_ms, settings);
        }
    }

    /// An idle client has been idle since then, although it was sent something later.
    pub(crate) fn is_idle_since(&mut self, since_ms: u64, settings: &Settings) {
        if matches!(self.waiting, Waiting::Idle | Waiting::Flush) {
            self.ms = self.ms.min(since_ms.saturating_add(settings.idle_timeout_ms));
        }
    }

    /// A job begins, which a thread may do at once, without a wait: the client has asked, and is not late.
    pub(crate) fn job_begins(&mut self, now_ms: u64, settings: &Settings) {
        if !matches!(self.waiting, Waiting::Send | Waiting::Linger) {
            self.wait(Waiting::Completion, now_ms, settings);
        }
    }

    /// A job ended. The next job gets a deadline of its own, unless this job made no progress.
    pub(crate) fn job_ended(&mut self, stands_still: bool) {
        if !stands_still && self.waiting == Waiting::Completion {
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
        (self.waiting, self.lingers_on) = (waiting, false);
        let after_ms = match waiting {
            Waiting::Nothing => u64::MAX,
            Waiting::Idle if self.may_have_to_flush() => {
                self.waiting = Waiting::Flush;
                self.flush_ms(settings)
            }
            Waiting::Idle => settings.idle_timeout_ms,
            Waiting::Flush => self.flush_ms(settings),
            Waiting::LastRequest => LAST_REQUEST_MS,
            Waiting::Head => settings.head_timeout_ms,
            Waiting::Body | Waiting::Send => self.credit_ms.into(),
            Waiting::Completion => settings.disk_deadline_ms,
            Waiting::Linger => LINGER_MS,
        };
        self.ms = now_ms.saturating_add(after_ms);
    }

    /// The client's socket took this many bytes, or the client sent this many bytes of a body.
    pub(crate) fn progressed(&mut self, bytes: u64) {
        self.uncounted_bytes += bytes;
    }

    /// The client goes on sending after its answer: this many bytes. It may do so until then.
    pub(crate) fn linger_on(&mut self, bytes: usize, now_ms: u64, until_ms: u64) {
        if self.waiting == Waiting::Linger && bytes > 0 {
            self.lingers_on = true;
            self.ms = now_ms.saturating_add(LINGER_ON_MS).min(until_ms);
        }
    }

    /// The length of the present wait after an answer, at most.
    fn linger_ms(&self) -> u64 {
        if self.lingers_on { LINGER_ON_MS } else { LINGER_MS }
    }

    /// What has not come in time. `unacknowledged` returns how many sent bytes the client has not acknowledged. If the
    /// client has credit left, the deadline moves.
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
            Waiting::Nothing | Waiting::Idle | Waiting::LastRequest | Waiting::Head | Waiting::Completion => {
                return Some(Expired::Late(self.waiting));
            }
            Waiting::Send | Waiting::Body => self.credit_ms.into(),
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => self.linger_ms(),
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
                // The client gets a 408 response, with time to read it.
                self.ms = now_ms.saturating_add(CREDIT_MS.into());
                return Some(Expired::Late(Waiting::Body));
            }
            _ if self.credit_ms == 0 => return Some(Expired::TooSlow),
            _ => {}
        }
        self.lingers_on = false;
        let after_ms = match self.waiting {
            Waiting::Flush => self.flush_ms(settings),
            Waiting::Linger => LINGER_MS,
            _ => self.credit_ms.into(),
        };
        self.ms = now_ms.saturating_add(after_ms);
        None
    }

    /// Takes the elapsed time off the credit, and adds time for the bytes that the client has moved.
    fn count(&mut self, unacknowledged: u64, passed_ms: u64, settings: &Settings) {
        let moved = self.uncounted_bytes.saturating_sub(unacknowledged);
        self.uncounted_bytes -= moved;
        let earned_ms = earned_ms(moved, settings);
        let paid_back_ms = earned_ms.min(self.advance_ms.into());
        self.advance_ms -= paid_back_ms as u16;
        let added_ms = earned_ms - paid_back_ms;
        let credit_ms = u64::from(self.credit_ms).saturating_add(added_ms).saturating_sub(passed_ms);
        self.credit_ms = credit_ms.min(CREDIT_MS_MAX.into()) as u32;
    }

    /// How long the client may read a response before Flash looks at its progress.
    fn flush_ms(&self, settings: &Settings) -> u64 {
        FLUSH_LOOK_MS.min(settings.idle_timeout_ms).min(self.credit_ms.into())
    }
}

/// The time that a client may take for so many bytes.
fn earned_ms(bytes: u64, settings: &Settings) -> u64 {
    match settings.send_rate_min {
        0 => u64::MAX,
        least => bytes.saturating_mul(1000) / least,
    }
}
