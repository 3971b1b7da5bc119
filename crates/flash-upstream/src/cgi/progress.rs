//! How long a program that has its client's socket has been silent, and how long it has waited for its client.
//!
//! It reads neither the clock nor the socket.

use std::time::Instant;

use flash_core::clients::send_credit::SendCredit;

use crate::settings::DirectLimits;

/// A client that takes less than this on average uses up its time. It is the default of `--send-rate-min`.
const BYTES_PER_SECOND_MIN: u64 = 500;

pub(super) struct Progress {
    seen: Seen,
    seen_at: Instant,
    /// When the program last wrote, or waited for its client.
    heard_at: Instant,
    /// When the client was first seen to have closed its side.
    ended_at: Option<Instant>,
    credit: SendCredit,
}

/// What the socket shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) written: u64,
    /// The part of it that is the client's to take.
    pub(super) unacked: u64,
    /// The program has filled the socket, and waits if it writes more.
    pub(super) is_full: bool,
    /// The client has closed its side.
    pub(super) has_ended: bool,
}

impl Seen {
    fn taken(&self) -> u64 {
        self.written.saturating_sub(self.unacked)
    }
}

impl Progress {
    pub(super) fn new(now: Instant, seen: Seen) -> Self {
        let ended_at = seen.has_ended.then_some(now);
        Self { seen, seen_at: now, heard_at: now, ended_at, credit: SendCredit::default() }
    }

    /// Whether the exchange may go on.
    pub(super) fn goes_on(&mut self, now: Instant, seen: Seen, limits: &DirectLimits) -> bool {
        self.credit.earn(seen.taken().saturating_sub(self.seen.taken()), BYTES_PER_SECOND_MIN);
        if seen.is_full {
            let waited = now.saturating_duration_since(self.seen_at);
            self.credit.spend(waited.as_millis() as u64);
        }
        if seen.is_full || seen.written != self.seen.written {
            self.heard_at = now;
        }
        if seen.has_ended {
            self.ended_at.get_or_insert(now);
        }
        (self.seen, self.seen_at) = (seen, now);
        let silent_since = |at: Instant| now.saturating_duration_since(at.max(self.heard_at));
        silent_since(self.heard_at) <= limits.silence_max
            && self.ended_at.is_none_or(|at| silent_since(at) <= limits.fin_max)
            && self.credit.left_ms(limits.send_max.as_millis() as u64) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: DirectLimits = DirectLimits {
        silence_max: Duration::from_secs(60),
        fin_max: Duration::from_secs(10),
        send_max: Duration::from_secs(5),
    };

    /// How many seconds the exchange goes on, looked at once in each.
    fn lasts(seen: impl Fn(u64) -> Seen) -> u64 {
        let start = Instant::now();
        let mut progress = Progress::new(start, seen(0));
        let goes_on =
            |second: &u64| progress.goes_on(start + Duration::from_secs(*second), seen(*second), &LIMITS);
        (1..2_000).take_while(goes_on).count() as u64
    }

    #[test]
    fn a_silent_program_is_ended() {
        assert_eq!(lasts(|_| Seen::default()), 60);
        assert_eq!(lasts(|second| Seen { written: second.min(7), ..Seen::default() }), 67, "it wrote");
        // Its client may take that or not: the program has not filled the socket.
        assert_eq!(lasts(|_| Seen { written: 1_000, unacked: 1_000, ..Seen::default() }), 60);
    }

    #[test]
    fn a_client_that_takes_nothing_loses_its_program() {
        let full = Seen { written: 1_000_000, unacked: 1_000_000, is_full: true, has_ended: false };
        assert_eq!(lasts(|_| full), 4);
        let slow = |rate| move |second| Seen { unacked: 1_000_000 - rate * second, ..full };
        assert_eq!(lasts(slow(250)), 8);
        assert_eq!(lasts(slow(500)), 1_999, "it is fast enough, and its program is not silent");
    }

    #[test]
    fn a_client_that_has_closed_its_side_waits_for_less() {
        assert_eq!(lasts(|second| Seen { has_ended: second >= 30, ..Seen::default() }), 40);
        let speaks = |second| Seen { written: second / 9, has_ended: true, ..Seen::default() };
        assert_eq!(lasts(speaks), 1_999);
    }
}
