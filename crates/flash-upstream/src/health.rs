//! Whether a server passes its checks, and how much of its part it gets since it is well again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flash_core::record::counters::ProgramCount;

use crate::counts::{Counted, ProgramCounter};

#[derive(Debug)]
pub(crate) struct Health {
    /// What the moment below counts from, in milliseconds; 0 is no moment.
    start: Instant,
    well_since_ms: AtomicU64,
    slow_start: Duration,
    failures: AtomicU32,
    is_failing: AtomicBool,
    counter: Arc<dyn ProgramCounter>,
    counted: Mutex<Option<Counted>>,
}

/// So many checks in a row fail before a server gets no requests. One that it passes is enough.
const FAILURES: u32 = 2;
/// Parts of its weight that a server has.
pub(crate) const WHOLE: u64 = 100;
/// What it begins with.
const LEAST: u64 = 10;

impl Health {
    pub(crate) fn new(slow_start: Duration, counter: Arc<dyn ProgramCounter>, now: Instant) -> Self {
        let (well_since_ms, failures, is_failing, counted) = Default::default();
        Self { start: now, well_since_ms, slow_start, failures, is_failing, counter, counted }
    }

    /// Whether it has failed its checks.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// It has passed its check. Returns whether it has not before.
    pub(crate) fn passed(&self, now: Instant) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        let was_failing = self.is_failing.swap(false, Ordering::Relaxed);
        if was_failing {
            *self.counted() = None;
            self.recovered(now);
        }
        was_failing
    }

    /// It has not passed its check. Returns whether it gets no requests from now on.
    pub(crate) fn failed(&self) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let is_new = failures >= FAILURES && !self.is_failing.swap(true, Ordering::Relaxed);
        if is_new {
            *self.counted() = Some(Counted::one(&self.counter, ProgramCount::Unreachable));
        }
        is_new
    }

    /// It is well again.
    pub(crate) fn recovered(&self, now: Instant) {
        self.well_since_ms.store(self.ms(now), Ordering::Relaxed);
    }

    /// How many hundredths of its weight it has: more and more, since it is well again.
    pub(crate) fn part(&self, now: Instant) -> u64 {
        let since = self.well_since_ms.load(Ordering::Relaxed);
        let slow_ms = self.slow_start.as_millis() as u64;
        if since == 0 || slow_ms == 0 {
            return WHOLE;
        }
        let passed = self.ms(now).saturating_sub(since).min(slow_ms);
        (LEAST + (WHOLE - LEAST) * passed / slow_ms).min(WHOLE)
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, Option<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ms(&self, at: Instant) -> u64 {
        1 + at.saturating_duration_since(self.start).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checks_in_a_row_decide_and_its_part_grows_afterwards() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let health = Health::new(Duration::from_secs(10), Arc::new(()), start);
        assert_eq!((health.part(at(0)), health.is_failing()), (WHOLE, false), "it begins with all of it");
        assert!(!health.failed() && !health.passed(at(1)) && !health.failed(), "one is none");
        assert!(health.failed() && health.is_failing() && !health.failed());
        assert!(health.passed(at(20)) && !health.is_failing() && !health.passed(at(20)));
        let parts = [20, 25, 29, 30, 99].map(|seconds| health.part(at(seconds)));
        assert_eq!(parts, [10, 55, 91, 100, 100]);
        let at_once = Health::new(Duration::ZERO, Arc::new(()), start);
        at_once.recovered(at(1));
        assert_eq!(at_once.part(at(1)), WHOLE);
    }
}
