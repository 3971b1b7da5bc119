//! When to look at the pools of helpers: often while a helper is at work, and never while all are idle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_os::semaphore::Semaphore;

#[derive(Debug)]
pub(super) struct Watchdog {
    period: Duration,
    signal: Semaphore,
    /// No helper was at work at the last look. The next helper that begins a job wakes the thread that watches.
    asleep: AtomicBool,
}

/// A device is marked down at most this part of its deadline too late.
const PARTS: u64 = 8;
const PERIOD_MAX_MS: u64 = 1_000;
const PERIOD_MIN_MS: u64 = 10;
/// Any long time will do, because each event posts the semaphore.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Watchdog {
    pub(super) fn new(deadline_ms: u64) -> Self {
        let period = Duration::from_millis((deadline_ms / PARTS).clamp(PERIOD_MIN_MS, PERIOD_MAX_MS));
        Self { period, signal: Semaphore::default(), asleep: AtomicBool::new(false) }
    }

    /// A helper begins a job.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.signal.post();
        }
    }

    /// Wakes the thread for another reason.
    pub(super) fn notify(&self) {
        self.signal.post();
    }

    /// Looks, and waits until it is time for the next look. `look` returns whether a helper is at work.
    pub(super) fn wait(&self, look: impl Fn(Instant) -> bool) {
        let mut at_work = look(Instant::now());
        if !at_work {
            self.asleep.store(true, Ordering::SeqCst);
            // Sees a helper that began before it could see `asleep`.
            at_work = look(Instant::now());
            if at_work {
                self.asleep.store(false, Ordering::SeqCst);
            }
        }
        self.signal.wait(if at_work { self.period } else { IDLE_MAX });
    }
}
