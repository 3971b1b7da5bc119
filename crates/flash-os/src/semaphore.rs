//! A semaphore: posting never waits, so a loop may do it.

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn every_post_lets_one_through() {
        let semaphore = Arc::new(Semaphore::default());
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || (0..1000).filter(|_| semaphore.wait(Duration::from_secs(30))).count())
            })
            .collect();
        (0..4000).for_each(|_| semaphore.post());
        let let_through: usize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        assert_eq!(let_through, 4000);
        assert!(!semaphore.wait(Duration::from_millis(1)), "none is left over");
    }
}
