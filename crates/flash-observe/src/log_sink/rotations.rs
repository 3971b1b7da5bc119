//! The rotations of logs in folders that this process may not look into. One of them that was opened again, and has another file, tells the
//! others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub(super) struct Rotations {
    count: AtomicU64,
    looked_at: Mutex<Option<Instant>>,
}

/// Between two looks, whichever logs they are for.
pub(super) const LOOK_PAUSE: Duration = Duration::from_secs(30);

/// Between two looks for the same log.
pub(super) const TURN_PAUSE: Duration = LOOK_PAUSE.saturating_mul(20);

impl Rotations {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU64::new(0), looked_at: Mutex::new(None) }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns how many there are with one more.
    pub(super) fn add(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether a log may be opened to see if it was rotated. That counts as a look.
    pub(super) fn may_look(&self, now: Instant) -> bool {
        let mut looked_at = self.looked_at.lock();
        let may = looked_at.is_none_or(|at| now >= at + LOOK_PAUSE);
        if may {
            *looked_at = Some(now);
        }
        may
    }
}
