//! The number of mt's threads: it grows when none is left that waits, and idle threads retire.
//!
//! A thread that leaves the wait to serve a connection looks behind it. If no other thread waits, it starts one first. So the
//! next connection never waits for a thread, until there are as many as there may be.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::clock::server_us;

pub(super) struct Threads {
    /// Idle threads retire down to this number.
    min: usize,
    max: usize,
    count: AtomicUsize,
    /// Threads that wait for an event, or have been started and are about to.
    waiting: AtomicUsize,
    /// Until then, in the server's microseconds, no thread is started. The last attempt failed.
    paused_until_us: AtomicU64,
}

/// Between a failure to start a thread and the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

impl Threads {
    pub(super) fn new(min: usize, max: usize) -> Self {
        Self {
            min,
            max,
            count: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            paused_until_us: AtomicU64::new(0),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// A thread goes to wait.
    pub(super) fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread has waited. Returns whether no other waits.
    pub(super) fn end_wait(&self) -> bool {
        self.waiting.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Whether a new connection would wait for a thread that serves another one.
    pub(super) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && (self.count() >= self.max || self.is_paused())
    }

    /// Whether more than the least number of threads exist.
    pub(super) fn may_retire(&self) -> bool {
        self.count() > self.min
    }

    /// Ends a thread, unless it is one of the last.
    pub(super) fn retire(&self) -> bool {
        let fewer = |count| (count > self.min).then(|| count - 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
    }

    /// Starts a thread, if there may be another one. Its first wait has begun by then.
    ///
    /// # Errors
    /// If `spawn` fails. Then no thread is started for a second.
    pub(super) fn start(&self, spawn: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let more = |count| (count < self.max).then_some(count + 1);
        if self.is_paused() || self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Ok(());
        }
        self.begin_wait();
        spawn().inspect_err(|_| {
            self.end_wait();
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.paused_until_us.store(server_us(Instant::now() + PAUSE), Ordering::Relaxed);
        })
    }

    fn is_paused(&self) -> bool {
        let until_us = self.paused_until_us.load(Ordering::Relaxed);
        until_us != 0 && server_us(Instant::now()) < until_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(threads: &Threads) -> bool {
        let mut is_started = false;
        threads
            .start(|| {
                is_started = true;
                Ok(())
            })
            .expect("it does not fail");
        is_started
    }

    #[test]
    fn there_are_never_more_than_the_most_or_fewer_than_the_least() {
        let threads = Threads::new(2, 4);
        let started: Vec<bool> = (0..6).map(|_| start(&threads)).collect();
        assert_eq!(started, [true, true, true, true, false, false]);
        let retired: Vec<bool> = (0..4).map(|_| threads.retire()).collect();
        assert_eq!(retired, [true, true, false, false]);
        assert_eq!((threads.count(), threads.may_retire()), (2, false));
    }

    #[test]
    fn threads_are_short_if_none_waits_and_none_can_be_started() {
        let threads = Threads::new(1, 2);
        start(&threads);
        assert!(!threads.is_short() && threads.end_wait(), "the last has left");
        assert!(!threads.is_short(), "another can be started");
        start(&threads);
        assert!(!threads.is_short() && threads.end_wait() && threads.is_short());
        threads.begin_wait();
        assert!(!threads.is_short());
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let threads = Threads::new(1, 3);
        start(&threads);
        threads.end_wait();
        assert!(threads.start(|| Err(io::ErrorKind::WouldBlock.into())).is_err());
        assert!(threads.is_short() && !start(&threads) && threads.count() == 1);
        threads.paused_until_us.store(1, Ordering::Relaxed);
        assert!(start(&threads) && threads.count() == 2);
    }
}
