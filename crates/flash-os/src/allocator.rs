//! The allocator of the process, as far as it is to be asked.
//!
//! Each thread has a heap of its own, with pages for each size of allocation. What another thread frees stays in it, and so
//! does what the thread itself freed, as long as it allocates little. A thread that goes to rest for long should give both
//! back first.

use std::time::{Duration, Instant};

/// A heap that was emptied this recently has little to give.
const COLLECT_EVERY: Duration = Duration::from_secs(1);

/// When a thread's heap was emptied last.
#[derive(Debug, Default)]
pub struct Collected(Option<Instant>);

impl Collected {
    /// Whether a second has passed since the last time that this was true.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= COLLECT_EVERY);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Gives back to the kernel what the calling thread's heap does not need, whatever it was last used for. In a program with
/// another allocator it does nothing.
pub fn collect() {
    // SAFETY: it may be called at any time, and takes memory from no other thread's heap.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_is_emptied_once_a_second() {
        let (mut collected, start) = (Collected::default(), Instant::now());
        let mut is_due = |ms| collected.is_due(start + Duration::from_millis(ms));
        assert!(is_due(0) && !is_due(1) && !is_due(999) && is_due(1000) && !is_due(1999) && is_due(5000));
    }
}
