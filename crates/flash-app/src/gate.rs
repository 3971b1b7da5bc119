//! The gate before a program that could not be reached: closed for a while that doubles with each failure, and then open
//! to one request at a time, until one gets through.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Gate {
    /// What the moments below count from, in milliseconds; 0 is no moment.
    start: Instant,
    closed_until_ms: AtomicU64,
    failures: AtomicU32,
    /// How long one that was let through keeps the others out.
    probe: Duration,
}

/// How long the gate is closed after a first failure, and after many.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Gate {
    pub(crate) fn new(probe: Duration, now: Instant) -> Self {
        Self { start: now, closed_until_ms: AtomicU64::new(0), failures: AtomicU32::new(0), probe }
    }

    /// Whether one may try now.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let until = self.closed_until_ms.load(Ordering::Relaxed);
        if until == 0 {
            return true;
        }
        let now_ms = self.ms(now);
        let next = now_ms + self.probe.as_millis() as u64;
        // Of those that come at the same time one wins.
        now_ms >= until
            && self
                .closed_until_ms
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether nobody may try now.
    pub(crate) fn is_closed(&self, now: Instant) -> bool {
        self.ms(now) < self.closed_until_ms.load(Ordering::Relaxed)
    }

    /// Somebody got through. Tells whether the gate was closed before.
    pub(crate) fn passed(&self) -> bool {
        // Looking first keeps the cache line with those who read it.
        if self.closed_until_ms.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.failures.store(0, Ordering::Relaxed);
        self.closed_until_ms.swap(0, Ordering::Relaxed) != 0
    }

    /// Somebody did not. Returns for how long the gate is closed.
    pub(crate) fn failed(&self, now: Instant) -> Duration {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        let pause = PAUSE_MIN.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX);
        self.closed_until_ms.store(self.ms(now) + pause.as_millis() as u64, Ordering::Relaxed);
        pause
    }

    fn ms(&self, at: Instant) -> u64 {
        1 + at.saturating_duration_since(self.start).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_probe_at_a_time_and_ever_longer_pauses() {
        let mut now = Instant::now();
        let gate = Gate::new(Duration::from_secs(3), now);
        assert!(gate.admits(now) && gate.admits(now) && !gate.passed());
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            let pause = gate.failed(now);
            assert!(pause >= last && pause <= PAUSE_MAX);
            last = pause;
            assert!(!gate.admits(now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(gate.admits(now) && !gate.admits(now), "one and no other");
            // One that never comes back does not close the gate for good.
            assert!(!gate.admits(now + Duration::from_millis(2999)));
        }
        assert_eq!(last, PAUSE_MAX);
        assert!(gate.admits(now + Duration::from_secs(3)));
        assert!(gate.passed() && !gate.passed());
        assert!(gate.admits(now) && gate.admits(now));
        assert_eq!(gate.failed(now), PAUSE_MIN, "it begins anew");
    }
}
