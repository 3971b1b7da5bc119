//! The ledger: what the server has done, and whether a loop was ever caught sleeping outside its wait.
//!
//! Plain counters that any thread adds to. [`watch`] brackets the few calls of a loop that could sleep, so that a
//! request answered from memory pays nothing for the proof.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_os::rusage;

/// Totals since the server's start.
#[derive(Debug, Default)]
pub struct Ledger {
    pub connections: Counter,
    pub requests: Counter,
    /// Connections turned away because there were too many, or no descriptor for them.
    pub shed: Counter,
    pub helper_jobs: Counter,
    /// Misses that waited for a job already under way.
    pub joined: Counter,
    /// Jobs refused because the helpers' queue was full.
    pub queue_full: Counter,
    /// Voluntary context switches of loops outside their wait.
    pub loop_blocks: Counter,
    pub panics: Counter,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Ledger {
    /// Performs something that a loop must not sleep in, and counts it if it did.
    pub fn watch<T>(&self, perform: impl FnOnce() -> T) -> T {
        let before = rusage::of_this_thread().voluntary_switches;
        let result = perform();
        let slept = rusage::of_this_thread().voluntary_switches - before;
        if slept > 0 {
            self.loop_blocks.add(slept);
        }
        result
    }
}

/// `requests=… connections=…`, for the line at the end.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "requests={} connections={} shed={} helper_jobs={} joined={} queue_full={} loop_blocks={} panics={}",
            self.requests.get(),
            self.connections.get(),
            self.shed.get(),
            self.helper_jobs.get(),
            self.joined.get(),
            self.queue_full.get(),
            self.loop_blocks.get(),
            self.panics.get(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_caught_and_work_is_not() {
        let ledger = Ledger::default();
        ledger.watch(|| (0..1000).sum::<u64>());
        assert_eq!(ledger.loop_blocks.get(), 0);
        ledger.watch(|| std::thread::sleep(std::time::Duration::from_millis(1)));
        assert_eq!(ledger.loop_blocks.get(), 1);
    }
}
