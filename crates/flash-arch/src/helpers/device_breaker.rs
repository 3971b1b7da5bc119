//! A circuit breaker per device: whether a device answers, as a loop asks before each job. The pools' watchdog writes
//! it.
//!
//! The breaker is open, and the device marked down, when a helper has been in one call to it for longer than the
//! deadline, and no job that began later has come back. A helper that uses the processor, or waits for one, is not in
//! such a call. While the breaker is open requests are refused at once, but for one probe at a time, for which no
//! client waits (half open). Any job that comes back closes the breaker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct DeviceBreaker {
    deadline_us: u64,
    /// When the last probe was let through, zero if none was.
    probed_us: AtomicU64,
    is_open: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    Closed,
    Open,
    /// Sick, and this job may try.
    HalfOpen,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Opened,
    Closed,
}

/// A probe that is not back by then is given up, and the next one may try. Each costs a helper, so a device that is gone
/// for good takes all of its own in the end, and no more.
const PROBE_EVERY: Duration = Duration::from_secs(3);

impl DeviceBreaker {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline_us: u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX),
            probed_us: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
        }
    }

    /// What a loop asks. `queued` says that jobs already wait for a helper: then a probe would wait with them.
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

    /// What the watchdog reports: since when helpers are stuck, as it has just seen it.
    pub(super) fn registered(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Transition> {
        if !self.is_late(stuck_us, now_us) {
            return self.told(stuck_us, now_us);
        }
        (!self.is_open.swap(true, Ordering::Relaxed)).then_some(Transition::Opened)
    }

    /// What a helper tells whenever one begins or comes back. It does not know which of the others are stuck.
    pub(super) fn told(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Transition> {
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
    fn from_well_to_sick_and_back() {
        let breaker = DeviceBreaker::new(Duration::from_millis(10));
        assert_eq!(breaker.ask(0, false), BreakerState::Closed);
        assert_eq!(breaker.told(Some(5 * MS), 5 * MS), None);
        assert_eq!(breaker.registered(Some(5 * MS), 14 * MS), None);
        assert_eq!(breaker.told(Some(5 * MS), 15 * MS), None, "helpers do not know which of them are stuck");
        assert_eq!(breaker.ask(15 * MS, false), BreakerState::Closed);
        assert_eq!(breaker.registered(Some(5 * MS), 15 * MS), Some(Transition::Opened));
        assert_eq!(breaker.registered(Some(5 * MS), 15 * MS), None, "it is said once");
        assert_eq!(breaker.ask(16 * MS, true), BreakerState::Open, "the queue would hold it up");
        assert_eq!(breaker.ask(16 * MS, false), BreakerState::HalfOpen);
        let later = PROBE_EVERY.as_micros() as u64 + 16 * MS;
        assert_eq!(breaker.ask(later - 1, false), BreakerState::Open, "one at a time");
        assert_eq!(breaker.ask(later, false), BreakerState::HalfOpen, "the first is not coming back");
        assert_eq!(breaker.told(Some(5 * MS), 3 * later), None, "an older one is back, which says nothing");
        assert_eq!(breaker.told(Some(3 * later), 3 * later), Some(Transition::Closed));
        assert_eq!(breaker.told(None, 3 * later), None, "it is said once");
        assert_eq!(breaker.ask(3 * later, false), BreakerState::Closed);
    }

    #[test]
    fn what_moves_again_is_well_again() {
        let breaker = DeviceBreaker::new(Duration::from_millis(10));
        assert_eq!(breaker.registered(Some(0), 10 * MS), Some(Transition::Opened));
        assert_eq!(breaker.registered(Some(11 * MS), 12 * MS), Some(Transition::Closed));
    }
}
