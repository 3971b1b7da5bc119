//! A circuit breaker per device. A loop asks it before each job, and the pools' watchdog sets it.
//!
//! If a helper has been in one call for longer than the deadline, and no later job has come back, the breaker opens.
//! The device is then marked down. A helper that uses the processor, or waits for one, is not in such a call. While
//! the breaker is open, requests are refused at once. Only one probe at a time passes (half open), and no client
//! waits for it. Any job that comes back closes the breaker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct DeviceBreaker {
    deadline_us: u64,
    /// When the last probe passed; zero if none has.
    probed_us: AtomicU64,
    is_open: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    Closed,
    Open,
    /// The device is down, and this job may try.
    HalfOpen,
}

/// How the breaker has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Opened,
    Closed,
}

/// If a probe is not back by then, the next one may pass. Each probe blocks a helper, so a device that is gone for
/// good blocks all of its own helpers in the end.
const PROBE_EVERY: Duration = Duration::from_secs(3);

impl DeviceBreaker {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline_us: u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX),
            probed_us: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
        }
    }

    /// Whether the device is marked down.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Whether a job may pass. `queued` says that jobs wait for a helper; a probe would wait with them.
    pub(super) fn ask(&self, now_us: u64, queued: bool) -> BreakerState {
        if !self.is_open.load(Ordering::Relaxed) {
            return BreakerState::Closed;
        }
        let probed = self.probed_us.load(Ordering::Relaxed);
        let due = (probed == 0 || now_us >= probed + PROBE_EVERY.as_micros() as u64) && !queued;
        let exchange =
            || self.probed_us.compare_exchange(probed, now_us, Ordering::Relaxed, Ordering::Relaxed);
        if due && exchange().is_ok() { BreakerState::HalfOpen } else { BreakerState::Open }
    }

    /// The watchdog has looked at the helpers: since when they are stuck.
    pub(super) fn observed(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Transition> {
        if !self.is_late(stuck_us, now_us) {
            return self.reported(stuck_us, now_us);
        }
        (!self.is_open.swap(true, Ordering::Relaxed)).then_some(Transition::Opened)
    }

    /// A helper has begun or finished a job. It does not know which of the others are stuck.
    pub(super) fn reported(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Transition> {
        let recovered = !self.is_late(stuck_us, now_us) && self.is_open.swap(false, Ordering::Relaxed);
        if recovered {
            self.probed_us.store(0, Ordering::Relaxed);
        }
        recovered.then_some(Transition::Closed)
    }

    fn is_late(&self, stuck_us: Option<u64>, now_us: u64) -> bool {
        stuck_us.is_some_and(|stuck_us| now_us.saturating_sub(stuck_us) >= self.deadline_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;

    #[test]
    fn from_closed_to_open_and_back() {
        let breaker = DeviceBreaker::new(Duration::from_millis(10));
        assert_eq!(breaker.ask(0, false), BreakerState::Closed);
        assert_eq!(breaker.reported(Some(5 * MS), 5 * MS), None);
        assert_eq!(breaker.observed(Some(5 * MS), 14 * MS), None);
        assert_eq!(
            breaker.reported(Some(5 * MS), 15 * MS),
            None,
            "helpers do not know which of them are stuck"
        );
        assert_eq!(breaker.ask(15 * MS, false), BreakerState::Closed);
        assert_eq!(breaker.observed(Some(5 * MS), 15 * MS), Some(Transition::Opened));
        assert_eq!(breaker.observed(Some(5 * MS), 15 * MS), None, "it is said once");
        assert_eq!(breaker.ask(16 * MS, true), BreakerState::Open, "the queue would hold it up");
        assert_eq!(breaker.ask(16 * MS, false), BreakerState::HalfOpen);
        let later = PROBE_EVERY.as_micros() as u64 + 16 * MS;
        assert_eq!(breaker.ask(later - 1, false), BreakerState::Open, "one at a time");
        assert_eq!(breaker.ask(later, false), BreakerState::HalfOpen, "the first is not coming back");
        assert_eq!(
            breaker.reported(Some(5 * MS), 3 * later),
            None,
            "an older one is back, which says nothing"
        );
        assert_eq!(breaker.reported(Some(3 * later), 3 * later), Some(Transition::Closed));
        assert_eq!(breaker.reported(None, 3 * later), None, "it is said once");
        assert_eq!(breaker.ask(3 * later, false), BreakerState::Closed);
    }

    #[test]
    fn a_helper_that_moves_again_closes_the_breaker() {
        let breaker = DeviceBreaker::new(Duration::from_millis(10));
        assert_eq!(breaker.observed(Some(0), 10 * MS), Some(Transition::Opened));
        assert_eq!(breaker.observed(Some(11 * MS), 12 * MS), Some(Transition::Closed));
    }
}
