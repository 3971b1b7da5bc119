//! Connections whose first answer has not come yet, and since when.
//!
//! A FastCGI server such as php-fpm serves as many connections as it has processes, and each kept connection holds one
//! of them: a new connection is not even accepted before a kept one is closed. So whoever gives a connection back asks
//! here whether another one has waited for long. Nobody waits for anybody: a table of moments, each set and cleared by
//! one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Waits {
    start: Instant,
    count: AtomicUsize,
    /// In milliseconds from the start; 0 for a place that is free.
    since_ms: [AtomicU64; PLACES],
}

/// More than so many are not remembered: some that are have waited about as long.
const PLACES: usize = 64;

/// A place in the table.
#[derive(Debug)]
pub(crate) struct Place(usize);

impl Waits {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, count: AtomicUsize::new(0), since_ms: [const { AtomicU64::new(0) }; PLACES] }
    }

    /// A new connection begins to wait.
    pub(crate) fn begin(&self, now: Instant) -> Option<Place> {
        let now_ms = self.ms(now);
        let take = |since: &AtomicU64| {
            since.load(Ordering::Relaxed) == 0
                && since.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let place = self.since_ms.iter().position(take)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Place(place))
    }

    /// Its first answer is complete, or nobody waits for it any more.
    pub(crate) fn end(&self, place: Place) {
        self.since_ms[place.0].store(0, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether one has waited for so long.
    pub(crate) fn any_for(&self, long: Duration, now: Instant) -> bool {
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
        let waits = Waits::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        let long = Duration::from_millis(100);
        assert!(!waits.any_for(long, at(500)));
        let first = waits.begin(at(500)).unwrap();
        let second = waits.begin(at(550)).unwrap();
        assert!(!waits.any_for(long, at(599)) && waits.any_for(long, at(600)));
        waits.end(first);
        assert!(!waits.any_for(long, at(649)) && waits.any_for(long, at(650)));
        waits.end(second);
        assert!(!waits.any_for(long, at(9999)));
        let all: Vec<Place> = (0..PLACES).map(|_| waits.begin(at(1000)).unwrap()).collect();
        assert!(waits.begin(at(1000)).is_none());
        all.into_iter().for_each(|place| waits.end(place));
        assert!(waits.begin(at(1000)).is_some());
    }
}
