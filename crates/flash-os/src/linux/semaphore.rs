//! A count that threads sleep on, as the kernel knows it (a futex).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;

#[derive(Debug, Default)]
pub struct Semaphore {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Semaphore {
    pub fn post(&self) {
        // Sequentially consistent, as is the sleepers' side: either this sees the sleeper, or the sleeper sees this.
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // It fails for addresses that are not this process's, which this is.
            let _ = futex::wake(&self.count, futex::Flags::PRIVATE, 1);
        }
    }

    /// Waits for a post of one's own. `false` if there was none for so long.
    pub fn wait(&self, at_most: Duration) -> bool {
        let give_up = Instant::now() + at_most;
        loop {
            if self.take() {
                return true;
            }
            let left = give_up.saturating_duration_since(Instant::now());
            let Ok(left) = left.try_into() else { return false };
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let woken = futex::wait(&self.count, futex::Flags::PRIVATE, 0, Some(&left));
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            if woken == Err(rustix::io::Errno::TIMEDOUT) {
                return self.take();
            }
        }
    }

    fn take(&self) -> bool {
        let less_one = |count: u32| count.checked_sub(1);
        self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one).is_ok()
    }
}
