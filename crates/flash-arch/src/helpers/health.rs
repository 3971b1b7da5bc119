//! Whether a device answers, as a loop asks before each job: numbers that helpers write and loops read.
//!
//! A device is sick when a job has been under way for longer than the deadline and none that began later has come back.
//! Then requests are refused at once, but for one at a time that is let through to see, without anybody waiting for it.
//! Whatever comes back makes the device well again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Health {
    deadline_us: u64,
    /// See [`Desk::suspect_us`](super::desk::Desk::suspect_us).
    suspect_us: AtomicU64,
    /// When the last probe was let through, zero if none was.
    probed_us: AtomicU64,
    sick: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    /// `news` is true for the first who notices.
    Sick {
        news: bool,
    },
    /// Sick, and this job may try.
    Probe,
}

const NEVER: u64 = u64::MAX;
/// A probe that is not back by then is given up, and the next one may try. Each costs a helper, so a device that is gone
/// for good takes all of its own in the end, and no more.
const PROBE_EVERY: Duration = Duration::from_secs(3);

impl Health {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline_us: u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX),
            suspect_us: AtomicU64::new(NEVER),
            probed_us: AtomicU64::new(0),
            sick: AtomicBool::new(false),
        }
    }

    /// What a loop asks. `queued` says that jobs already wait for a helper: then a probe would wait with them.
    pub(super) fn ask(&self, now_us: u64, queued: bool) -> Verdict {
        if !self.is_late(self.suspect_us.load(Ordering::Relaxed), now_us) {
            return Verdict::Well;
        }
        let probed = self.probed_us.load(Ordering::Relaxed);
        let due = (probed == 0 || now_us >= probed + PROBE_EVERY.as_micros() as u64) && !queued;
        if !self.sick.swap(true, Ordering::Relaxed) {
            return Verdict::Sick { news: true };
        }
        let exchange =
            || self.probed_us.compare_exchange(probed, now_us, Ordering::Relaxed, Ordering::Relaxed);
        if due && exchange().is_ok() { Verdict::Probe } else { Verdict::Sick { news: false } }
    }

    /// What a helper tells whenever one begins or comes back. Returns whether the device has just recovered.
    pub(super) fn tell(&self, suspect_us: Option<u64>, now_us: u64) -> bool {
        let suspect = suspect_us.unwrap_or(NEVER);
        self.suspect_us.store(suspect, Ordering::Relaxed);
        let recovered = !self.is_late(suspect, now_us) && self.sick.swap(false, Ordering::Relaxed);
        if recovered {
            self.probed_us.store(0, Ordering::Relaxed);
        }
        recovered
    }

    fn is_late(&self, suspect_us: u64, now_us: u64) -> bool {
        suspect_us != NEVER && now_us.saturating_sub(suspect_us) >= self.deadline_us
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
        assert!(!health.tell(Some(5 * MS), 5 * MS));
        assert_eq!(health.ask(14 * MS, false), Verdict::Well);
        assert_eq!(health.ask(15 * MS, false), Verdict::Sick { news: true });
        assert_eq!(health.ask(16 * MS, true), Verdict::Sick { news: false }, "the queue would hold it up");
        assert_eq!(health.ask(16 * MS, false), Verdict::Probe);
        let later = PROBE_EVERY.as_micros() as u64 + 16 * MS;
        assert_eq!(health.ask(later - 1, false), Verdict::Sick { news: false }, "one at a time");
        assert_eq!(health.ask(later, false), Verdict::Probe, "the first is not coming back");
        assert!(!health.tell(Some(5 * MS), 3 * later), "an older one is back, which says nothing");
        assert!(health.tell(Some(3 * later), 3 * later), "what is under way now may yet come back in time");
        assert!(!health.tell(None, 3 * later), "it is said once");
        assert_eq!(health.ask(3 * later, false), Verdict::Well);
    }
}
