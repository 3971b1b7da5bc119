//! Connections that wait for their first response, and since when.
//!
//! A FastCGI server such as php-fpm serves as many connections as it has processes, and each idle connection holds a process.
//! If all are held, it accepts a new connection only after an idle one is closed. So before Flash keeps a connection, this
//! table tells whether another one has waited for long. It is lock-free: each slot is a time that one thread sets and clears.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct FirstResponses {
    start: Instant,
    count: AtomicUsize,
    /// In milliseconds from the start; 0 for a slot that is free.
    since_ms: [AtomicU64; SLOTS],
}

/// At most so many are tracked: some that are have waited about as long.
const SLOTS: usize = 64;

/// A slot in the table.
#[derive(Debug)]
pub(crate) struct Slot(usize);

impl FirstResponses {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, count: AtomicUsize::new(0), since_ms: [const { AtomicU64::new(0) }; SLOTS] }
    }

    /// A new connection begins to wait.
    pub(crate) fn begin(&self, now: Instant) -> Option<Slot> {
        let now_ms = self.ms(now);
        let take = |since: &AtomicU64| {
            since.load(Ordering::Relaxed) == 0
                && since.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let slot = self.since_ms.iter().position(take)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Slot(slot))
    }

    /// Its first response is complete, or has no reader any more.
    pub(crate) fn end(&self, slot: Slot) {
        self.since_ms[slot.0].store(0, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether one has waited for so long.
    pub(crate) fn any_waiting_for(&self, long: Duration, now: Instant) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let latest = self.ms(now).saturating_sub(long.as_millis() as u64);
        self.since_ms.iter().any(|since| (1..=latest).contains(&since.load(Ordering::Relaxed)))
    }

    fn ms(&self, at: Instant) -> u64 {
        1 + at.saturating_duration_since(self.start).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_who_has_waited_for_long() {
        let start = Instant::now();
        let responses = FirstResponses::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        let long = Duration::from_millis(100);
        assert!(!responses.any_waiting_for(long, at(500)));
        let first = responses.begin(at(500)).unwrap();
        let second = responses.begin(at(550)).unwrap();
        assert!(!responses.any_waiting_for(long, at(599)) && responses.any_waiting_for(long, at(600)));
        responses.end(first);
        assert!(!responses.any_waiting_for(long, at(649)) && responses.any_waiting_for(long, at(650)));
        responses.end(second);
        assert!(!responses.any_waiting_for(long, at(9999)));
        let all: Vec<Slot> = (0..SLOTS).map(|_| responses.begin(at(1000)).unwrap()).collect();
        assert!(responses.begin(at(1000)).is_none());
        all.into_iter().for_each(|slot| responses.end(slot));
        assert!(responses.begin(at(1000)).is_some());
    }
}
