//! When a run's measured time begins, and what else all threads of a run have in common.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Load;

/// Until all threads know that the measured time begins.
const RUN_UP: Duration = Duration::from_millis(5);

/// What all threads of a run have in common.
pub(crate) struct Course {
    pub(crate) start: Instant,
    /// The end of the warm-up.
    pub(crate) warm: Instant,
    measured_from: OnceLock<Instant>,
    /// Threads that have requests of the warm-up under way, in an open loop.
    unsettled: AtomicUsize,
    pub(crate) stop: AtomicBool,
}

impl Course {
    pub(crate) fn new(load: &Load, start: Instant) -> Course {
        let warm = start + load.warm_up;
        let settles = !load.warm_up.is_zero() && load.groups.iter().any(|group| group.pace.is_open());
        Course {
            start,
            warm,
            measured_from: if settles { OnceLock::new() } else { OnceLock::from(warm) },
            unsettled: AtomicUsize::new(load.threads as usize),
            stop: AtomicBool::new(false),
        }
    }

    /// None as long as an open loop's requests of the warm-up are under way.
    pub(crate) fn measured_from(&self) -> Option<Instant> {
        self.measured_from.get().copied()
    }

    /// Whether a moment is not before the measured time.
    pub(crate) fn is_measured(&self, moment: Instant) -> bool {
        self.measured_from().is_some_and(|from| moment >= from)
    }

    /// One more thread has none under way.
    pub(super) fn settled(&self, now: Instant) {
        if self.unsettled.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It is known already where no thread had to wait.
            let _ = self.measured_from.set(now + RUN_UP);
        }
    }
}
