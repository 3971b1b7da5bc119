//! A lock and a condition. A thread that posts waits for no more than others take to count.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Semaphore {
    count: Mutex<u32>,
    posted: Condvar,
}

impl Semaphore {
    pub fn post(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.posted.notify_one();
    }

    /// Waits for a post of one's own. `false` if there was none for so long.
    pub fn wait(&self, at_most: Duration) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.posted.wait_timeout_while(count, at_most, |count| *count == 0);
        let (mut count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let taken = count.checked_sub(1);
        *count = taken.unwrap_or_default();
        taken.is_some()
    }
}
