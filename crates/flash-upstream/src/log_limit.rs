//! What happens to many requests in a row is said now and then, and not each time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct LogLimit {
    /// What the moment below counts from, in milliseconds; 0 is no moment.
    start: Instant,
    said_ms: AtomicU64,
}

const EVERY: Duration = Duration::from_secs(5);

impl LogLimit {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, said_ms: AtomicU64::new(0) }
    }

    /// Whether it is time to say it. Of threads that ask at once, one is told so.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let now_ms = 1 + now.saturating_duration_since(self.start).as_millis() as u64;
        let said_ms = self.said_ms.load(Ordering::Relaxed);
        let is_due = said_ms == 0 || now_ms >= said_ms + EVERY.as_millis() as u64;
        is_due && self.said_ms.compare_exchange(said_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_at_first_and_then_every_five_seconds() {
        let start = Instant::now();
        let limit = LogLimit::new(start);
        let due: Vec<bool> =
            [0, 0, 4999, 5000, 5001, 20_000].map(|ms| limit.is_due(start + Duration::from_millis(ms))).into();
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
