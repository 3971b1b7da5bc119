//! How often one kind of error line may be logged.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often one kind of line may be logged: a `static` beside the call that logs it.
///
/// ```
/// # use flash_observe::{ErrorLog, RateLimit};
/// # use std::time::Duration;
/// # fn refuse(error_log: &ErrorLog) {
/// static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
/// error_log.log_limited(&FULL, format_args!("no descriptor left: a connection waits"));
/// # }
/// ```
#[derive(Debug)]
pub struct RateLimit {
    every: Duration,
    logged_at: Mutex<Option<Instant>>,
    suppressed: AtomicU64,
}

impl RateLimit {
    pub const fn every(every: Duration) -> RateLimit {
        RateLimit { every, logged_at: Mutex::new(None), suppressed: AtomicU64::new(0) }
    }

    /// Whether to log it now, and how many lines were suppressed before.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        // If another thread has the lock, it is just about to log it, or not to.
        let logged_at = self.logged_at.try_lock();
        let due = logged_at.filter(|logged_at| logged_at.is_none_or(|at| now >= at + self.every));
        match due {
            Some(mut logged_at) => {
                *logged_at = Some(now);
                Some(self.suppressed.swap(0, Ordering::Relaxed))
            }
            None => {
                self.suppressed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Hands a line on if it may be logged now, with how many more like it were suppressed before.
    pub(crate) fn log(&self, what: fmt::Arguments<'_>, log: impl FnOnce(fmt::Arguments<'_>)) {
        if let Some(suppressed) = self.admit(Instant::now()) {
            log(format_args!("{what}{}", Suppressed(suppressed)));
        }
    }
}

/// The end of a line: how many more like it were suppressed before, if any.
pub(crate) struct Suppressed(pub(crate) u64);

impl fmt::Display for Suppressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " (and {more} more like it before)"),
        }
    }
}
