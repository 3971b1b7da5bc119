//! Whether a device answers, as a loop asks before each job: what the pools' watcher writes and loops read.
//!
//! A device is sick when a helper has been in one call to it for longer than the deadline, and no job that began later has
//! come back. A helper that uses the processor, or waits for one, is not in such a call. While the device is sick requests
//! are refused at once, but for one at a time that is let through to see, without a client that waits for it. Any job that
//! comes back makes the device well again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Health {
    deadline_us: u64,
    /// When the last probe was let through, zero if none was.
    probed_us: AtomicU64,
    sick: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    Sick,
    /// Sick, and this job may try.
    Probe,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    FellSick,
    Recovered,
}

/// A probe that is not back by then is given up, and the next one may try. Each costs a helper, so a device that is gone
/// for good takes all of its own in the end, and no more.
const PROBE_EVERY: Duration = Duration::from_secs(3);

impl Health {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline_us: u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX),
            probed_us: AtomicU64::new(0),
            sick: AtomicBool::new(false),
        }
    }

    /// What a loop asks. `queued` says that jobs already wait for a helper: then a probe would wait with them.
    pub(super) fn ask(&self, now_us: u64, queued: bool) -> Verdict {
        if !self.sick.load(Ordering::Relaxed) {
            return Verdict::Well;
        }
        let probed = self.probed_us.load(Ordering::Relaxed);
        let due = (probed == 0 || now_us >= probed + PROBE_EVERY.as_micros() as u64) && !queued;
        let exchange =
            || self.probed_us.compare_exchange(probed, now_us, Ordering::Relaxed, Ordering::Relaxed);
        if due && exchange().is_ok() { Verdict::Probe } else { Verdict::Sick }
    }

    /// What the watcher tells, with the time since when helpers are stuck, as it has just seen it.
    pub(super) fn watched(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Change> {
        if !self.is_late(stuck_us, now_us) {
            return self.told(stuck_us, now_us);
        }
        (!self.sick.swap(true, Ordering::Relaxed)).then_some(Change::FellSick)
    }

    /// What a helper tells whenever one begins or comes back. It does not know which of the others are stuck.
    pub(super) fn told(&self, stuck_us: Option<u64>, now_us: u64) -> Option<Change> {
        let recovered = !self.is_late(stuck_us, now_us) && self.sick.swap(false, Ordering::Relaxed);
        if recovered {
            self.probed_us.store(0, Ordering::Relaxed);
        }
        recovered.then_some(Change::Recovered)
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
        let health = Health::new(Duration::from_millis(10));
        assert_eq!(health.ask(0, false), Verdict::Well);
        assert_eq!(health.told(Some(5 * MS), 5 * MS), None);
        assert_eq!(health.watched(Some(5 * MS), 14 * MS), None);
        assert_eq!(health.told(Some(5 * MS), 15 * MS), None, "helpers do not know which of them are stuck");
        assert_eq!(health.ask(15 * MS, false), Verdict::Well);
        assert_eq!(health.watched(Some(5 * MS), 15 * MS), Some(Change::FellSick));
        assert_eq!(health.watched(Some(5 * MS), 15 * MS), None, "it is said once");
        assert_eq!(health.ask(16 * MS, true), Verdict::Sick, "the queue would hold it up");
        assert_eq!(health.ask(16 * MS, false), Verdict::Probe);
        let later = PROBE_EVERY.as_micros() as u64 + 16 * MS;
        assert_eq!(health.ask(later - 1, false), Verdict::Sick, "one at a time");
        assert_eq!(health.ask(later, false), Verdict::Probe, "the first is not coming back");
        assert_eq!(health.told(Some(5 * MS), 3 * later), None, "an older one is back, which says nothing");
        assert_eq!(health.told(Some(3 * later), 3 * later), Some(Change::Recovered));
        assert_eq!(health.told(None, 3 * later), None, "it is said once");
        assert_eq!(health.ask(3 * later, false), Verdict::Well);
    }

    #[test]
    fn what_moves_again_is_well_again() {
        let health = Health::new(Duration::from_millis(10));
        assert_eq!(health.watched(Some(0), 10 * MS), Some(Change::FellSick));
        assert_eq!(health.watched(Some(11 * MS), 12 * MS), Some(Change::Recovered));
    }
}
