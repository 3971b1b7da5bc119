//! A circuit breaker with backoff. After a failure it is open: it allows no attempt, for a time that doubles with each
//! failure. Then it is half open: it allows one attempt at a time, until one succeeds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flash_core::record::counters::ProgramCount;

use crate::counts::{Counted, ProgramCounter};

#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    /// What the moments below count from, in milliseconds; 0 is no moment.
    start: Instant,
    open_until_ms: AtomicU64,
    failures: AtomicU32,
    /// How long an attempt that was allowed in the half-open state holds back others.
    probe: Duration,
    counter: Arc<dyn ProgramCounter>,
    /// Set from a first failure to the next success.
    unreachable: Mutex<Option<Counted>>,
}

/// How long the breaker is open after a first failure, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

impl CircuitBreaker {
    pub(crate) fn new(probe: Duration, counter: Arc<dyn ProgramCounter>, now: Instant) -> Self {
        Self {
            start: now,
            open_until_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            probe,
            counter,
            unreachable: Mutex::default(),
        }
    }

    /// Whether an attempt is allowed now.
    pub(crate) fn allow(&self, now: Instant) -> bool {
        let until = self.open_until_ms.load(Ordering::Relaxed);
        if until == 0 {
            return true;
        }
        let now_ms = self.ms(now);
        let next = now_ms + self.probe.as_millis() as u64;
        // Of those that come at the same time one wins.
        now_ms >= until
            && self.open_until_ms.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether no attempt is allowed now.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.ms(now) < self.open_until_ms.load(Ordering::Relaxed)
    }

    /// An attempt succeeded. Returns whether the breaker was open before.
    pub(crate) fn succeeded(&self) -> bool {
        // Looking first keeps the cache line with those who read it.
        if self.open_until_ms.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut unreachable = self.unreachable();
        self.failures.store(0, Ordering::Relaxed);
        *unreachable = None;
        self.open_until_ms.swap(0, Ordering::Relaxed) != 0
    }

    /// An attempt failed. Returns for how long the breaker is open.
    pub(crate) fn failed(&self, now: Instant) -> Duration {
        // What is counted and when it opens change together.
        let mut unreachable = self.unreachable();
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        unreachable.get_or_insert_with(|| Counted::one(&self.counter, ProgramCount::Unreachable));
        let pause = BACKOFF_MIN.saturating_mul(1 << failures.min(16)).min(BACKOFF_MAX);
        self.open_until_ms.store(self.ms(now) + pause.as_millis() as u64, Ordering::Relaxed);
        pause
    }

    fn unreachable(&self) -> MutexGuard<'_, Option<Counted>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
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
        let breaker = CircuitBreaker::new(Duration::from_secs(3), Arc::new(()), now);
        assert!(breaker.allow(now) && breaker.allow(now) && !breaker.succeeded());
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            let pause = breaker.failed(now);
            assert!(pause >= last && pause <= BACKOFF_MAX);
            last = pause;
            assert!(!breaker.allow(now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(breaker.allow(now) && !breaker.allow(now), "one and no other");
            // An attempt without a result does not keep the breaker open for good.
            assert!(!breaker.allow(now + Duration::from_millis(2999)));
        }
        assert_eq!(last, BACKOFF_MAX);
        assert!(breaker.allow(now + Duration::from_secs(3)));
        assert!(breaker.succeeded() && !breaker.succeeded());
        assert!(breaker.allow(now) && breaker.allow(now));
        assert_eq!(breaker.failed(now), BACKOFF_MIN, "it begins anew");
    }
}
