//! How long a program may be silent, and how long it may wait for its client. Nothing that the client did before counts.

use crate::clients::send_credit::SendCredit;
use crate::server::Settings;

#[derive(Debug)]
pub(crate) struct ProgramDeadline {
    awaited: Awaited,
    since_ms: u64,
    until_ms: u64,
    credit: SendCredit,
}

/// Who has to act next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The client with its request's body, a job, or nobody. No program waits.
    Nothing,
    /// The program: it has to open, to read or to write.
    Program,
    /// The client: it is so far behind that its program cannot go on.
    Client,
    /// The client or the upstream, whose bytes go in both directions at a time.
    Either,
}

impl Default for ProgramDeadline {
    fn default() -> Self {
        Self { awaited: Awaited::Nothing, since_ms: 0, until_ms: u64::MAX, credit: SendCredit::default() }
    }
}

impl ProgramDeadline {
    pub(crate) fn ms(&self) -> u64 {
        self.until_ms
    }

    /// Begins a wait. If the same wait goes on, its deadline stays. A client that `has_ended` its side may be gone, so its
    /// program has less time. `silence_ms` is how long this program may be silent, if it has a time of its own.
    pub(super) fn wait(
        &mut self,
        awaited: Awaited,
        has_ended: bool,
        silence_ms: Option<u64>,
        now_ms: u64,
        settings: &Settings,
    ) {
        if self.awaited != awaited {
            self.end(now_ms);
            (self.awaited, self.since_ms) = (awaited, now_ms);
            self.until_ms = match awaited {
                Awaited::Nothing => u64::MAX,
                Awaited::Program | Awaited::Either => {
                    now_ms.saturating_add(silence_ms.unwrap_or(settings.program_silence_ms))
                }
                Awaited::Client => now_ms.saturating_add(self.credit.left_ms(settings.program_send_ms)),
            };
        }
        if matches!(awaited, Awaited::Program | Awaited::Either) && has_ended {
            self.until_ms = self.until_ms.min(now_ms.saturating_add(settings.program_fin_ms));
        }
    }

    /// Ends the wait: the program has acted, or can act again.
    pub(super) fn end(&mut self, now_ms: u64) {
        if self.awaited == Awaited::Client {
            self.credit.spend(now_ms.saturating_sub(self.since_ms));
        }
        (self.awaited, self.until_ms) = (Awaited::Nothing, u64::MAX);
    }

    /// The client has taken this many bytes.
    pub(super) fn client_took(&mut self, bytes: u64, now_ms: u64, settings: &Settings) {
        let is_awaited = self.awaited == Awaited::Client;
        if is_awaited {
            self.end(now_ms);
        }
        self.credit.earn(bytes, settings.send_rate_min);
        if is_awaited {
            self.wait(Awaited::Client, false, None, now_ms, settings);
        }
    }

    /// Who has not acted in time.
    pub(super) fn expired(&self, now_ms: u64) -> Option<Awaited> {
        (now_ms >= self.until_ms).then_some(self.awaited)
    }
}
