//! When to look at the pools of helpers: often while a helper is at work, and not at all while none is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_os::semaphore::Semaphore;

#[derive(Debug)]
pub(super) struct Watchdog {
    period: Duration,
    readiness: Semaphore,
    /// No helper was at work at the last look, and the next one to begin has to wake the thread that watches.
    asleep: AtomicBool,
}

/// A device is marked down that much of its deadline late.
const PARTS: u64 = 8;
const PERIOD_MAX_MS: u64 = 1_000;
const PERIOD_MIN_MS: u64 = 10;
/// Nothing has to happen without news; it only has to be some time.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Watchdog {
    pub(super) fn new(deadline_ms: u64) -> Self {
        let period = Duration::from_millis((deadline_ms / PARTS).clamp(PERIOD_MIN_MS, PERIOD_MAX_MS));
        Self { period, readiness: Semaphore::default(), asleep: AtomicBool::new(false) }
    }

    /// A helper goes to work.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.readiness.post();
        }
    }

    /// Something else has happened that the thread has to see to.
    pub(super) fn readiness(&self) {
        self.readiness.post();
    }

    /// Waits until it is time, and looks. `look` says whether a helper is at work.
    pub(super) fn wait(&self, look: impl Fn(Instant) -> bool) {
        let mut at_work = look(Instant::now());
        if !at_work {
            self.asleep.store(true, Ordering::SeqCst);
            // A helper that began before it could see this is seen here.
            at_work = look(Instant::now());
            if at_work {
                self.asleep.store(false, Ordering::SeqCst);
            }
        }
        self.readiness.wait(if at_work { self.period } else { IDLE_MAX });
    }
}
