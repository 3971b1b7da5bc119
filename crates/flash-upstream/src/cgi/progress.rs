//! How long a program that has its client's socket has been silent, and how long its client has taken nothing.
//!
//! It reads neither the clock nor the socket.

use std::time::{Duration, Instant};

/// How long a client may take nothing of what its program has written. Its kernel may hold megabytes that it reads slowly.
const CLIENT_STALL_MAX: Duration = Duration::from_secs(15 * 60);

pub(super) struct Progress {
    written: u64,
    /// When more bytes had last been written.
    grew_at: Instant,
    /// When the program last wrote, or its client still had bytes to take.
    heard_at: Instant,
}

impl Progress {
    pub(super) fn new(now: Instant, written: u64) -> Self {
        Self { written, grew_at: now, heard_at: now }
    }

    /// Whether the exchange may go on. `unacked` bytes of the `written` ones are the client's to take.
    pub(super) fn goes_on(
        &mut self,
        now: Instant,
        written: u64,
        unacked: u64,
        silence_max: Duration,
    ) -> bool {
        if written != self.written {
            *self = Self::new(now, written);
        } else if unacked > 0 {
            // The program waits for its client. It has its whole time again once the client has taken everything.
            self.heard_at = now;
        }
        now.saturating_duration_since(self.heard_at) <= silence_max
            && now.saturating_duration_since(self.grew_at) <= silence_max.max(CLIENT_STALL_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE_MAX: Duration = Duration::from_secs(1);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_silent_program_is_ended() {
        let start = Instant::now();
        let mut progress = Progress::new(start, 0);
        assert!(progress.goes_on(start + seconds(1.0), 0, 0, SILENCE_MAX));
        assert!(progress.goes_on(start + seconds(1.1), 5, 0, SILENCE_MAX), "it wrote");
        assert!(progress.goes_on(start + seconds(2.1), 5, 0, SILENCE_MAX));
        assert!(!progress.goes_on(start + seconds(2.2), 5, 0, SILENCE_MAX));
    }

    #[test]
    fn a_slow_clients_time_is_not_its_programs_silence() {
        let start = Instant::now();
        let mut progress = Progress::new(start, 0);
        assert!(progress.goes_on(start, 1000, 1000, SILENCE_MAX));
        assert!(progress.goes_on(start + seconds(3.0), 1000, 1000, SILENCE_MAX));
        assert!(progress.goes_on(start + seconds(3.1), 1000, 0, SILENCE_MAX), "the program has not run yet");
        assert!(!progress.goes_on(start + seconds(4.1), 1000, 0, SILENCE_MAX));
    }

    #[test]
    fn a_client_that_takes_nothing_at_all_has_an_end_too() {
        let start = Instant::now();
        let mut progress = Progress::new(start, 1000);
        for second in 0..=900 {
            assert!(progress.goes_on(start + Duration::from_secs(second), 1000, 1000, SILENCE_MAX));
        }
        assert!(!progress.goes_on(start + seconds(901.0), 1000, 1000, SILENCE_MAX));
    }
}
