//! The slowest requests of the last minute, for the status page.
//!
//! Loops and workers leave them here. None waits for it: a request is left out if its part of the list is just being read. What a
//! list costs is bounded, because each ten seconds keep a few requests only.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use flash_core::record::{Record, SLOW_US};

use crate::admin::last_minute::{LastMinute, PARTS};
use crate::admin::snapshot::SlowRequest;

/// Requests of ten seconds that a list keeps.
const REQUESTS_MAX: usize = 16;
/// Bytes of a request line, and of a host.
pub(crate) const TEXT_BYTES_MAX: usize = 200;

#[derive(Default)]
pub(crate) struct Slowest {
    /// Requests that ended in the same ten seconds.
    lists: LastMinute<Vec<SlowRequest>>,
    next: AtomicUsize,
    /// Tells another process those of the last minute.
    pub(crate) tell: OnceLock<Tell>,
}

type Tell = Box<dyn Fn(&[SlowRequest]) + Send + Sync>;

impl Slowest {
    /// The number of the list that a loop or worker adds to.
    pub(crate) fn list(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % PARTS
    }

    /// Adds a request that has ended, if it is one of the slowest. Never waits.
    pub(crate) fn add(&self, list: usize, record: &Record) {
        if record.duration_us < SLOW_US {
            return;
        }
        self.add_slow(list, record.unix_ms, record.duration_us, || of_record(record));
        if let Some(tell) = self.tell.get() {
            tell(&self.of_last_minute(record.unix_ms + record.duration_us / 1000));
        }
    }

    fn add_slow(&self, list: usize, unix_ms: u64, duration_us: u64, request: impl FnOnce() -> SlowRequest) {
        self.lists.add(list, unix_ms + duration_us / 1000, |requests| {
            if requests.len() < REQUESTS_MAX {
                requests.push(request());
            } else if let Some(quickest) = requests.iter_mut().min_by_key(|one| one.duration_us)
                && quickest.duration_us < duration_us
            {
                *quickest = request();
            }
        });
    }

    /// Those of the last minute, the slowest first.
    pub(crate) fn of_last_minute(&self, now_unix_ms: u64) -> Vec<SlowRequest> {
        let mut requests: Vec<SlowRequest> = Vec::new();
        self.lists.read(now_unix_ms, |window| requests.extend_from_slice(window));
        slowest_of(requests)
    }
}

/// The slowest of all, the slowest first.
pub(crate) fn slowest_of(mut requests: Vec<SlowRequest>) -> Vec<SlowRequest> {
    requests.sort_by_key(|request| std::cmp::Reverse(request.duration_us));
    requests.truncate(REQUESTS_MAX);
    requests
}

fn of_record(record: &Record) -> SlowRequest {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned();
    let (spent, program) = (&record.spent, record.program.unwrap_or_default());
    SlowRequest {
        unix_ms: record.unix_ms,
        request: text(&record.request_line),
        host: text(&record.host),
        status: record.status,
        body_bytes: record.body_bytes,
        duration_us: record.duration_us,
        walk_us: spent.walk_ns / 1000,
        open_us: spent.open_ns / 1000,
        read_us: spent.read_ns / 1000,
        queue_us: spent.queue_ns / 1000,
        help_us: spent.help_ns / 1000,
        send_us: record.send_us,
        first_byte_us: record.first_byte_us,
        program_queue_us: program.queue_us,
        program_connect_us: program.connect_us,
        program_first_byte_us: program.first_byte_us,
        program_us: program.whole_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(slowest: &Slowest, list: usize, unix_ms: u64, duration_us: u64) {
        let request = || SlowRequest { unix_ms, duration_us, ..SlowRequest::default() };
        slowest.add_slow(list, unix_ms, duration_us, request);
    }

    fn durations(slowest: &Slowest, now_unix_ms: u64) -> Vec<u64> {
        slowest.of_last_minute(now_unix_ms).iter().map(|one| one.duration_us).collect()
    }

    #[test]
    fn the_slowest_of_all_lists_come_first() {
        let slowest = Slowest::default();
        for duration_us in (1..=1000).map(|n| n * 1000) {
            add(&slowest, slowest.list(), 1_000_000, duration_us);
        }
        let expected: Vec<u64> = (985..=1000).rev().map(|n| n * 1000).collect();
        assert_eq!(durations(&slowest, 1_000_000), expected);
        assert!((0..PARTS).all(|list| slowest.lists.part(list)[0].1.len() <= REQUESTS_MAX));
    }

    #[test]
    fn a_minute_later_they_are_gone() {
        let slowest = Slowest::default();
        add(&slowest, 0, 1_000_000, 5000);
        add(&slowest, 0, 1_030_000, 2000);
        assert_eq!(durations(&slowest, 1_060_000), [5000, 2000]);
        assert_eq!(durations(&slowest, 1_070_000), [2000]);
        add(&slowest, 0, 1_200_000, 3000);
        assert_eq!(slowest.lists.part(0).len(), 1, "nothing old is kept");
    }

    #[test]
    fn a_clock_that_was_ahead_leaves_nothing_behind() {
        let slowest = Slowest::default();
        add(&slowest, 0, 90_000_000, 9000);
        add(&slowest, 0, 1_000_000, 5000);
        assert_eq!(durations(&slowest, 1_000_000), [5000]);
        add(&slowest, 0, 1_070_000, 2000);
        assert_eq!(durations(&slowest, 1_070_000), [2000]);
    }

    #[test]
    fn no_loop_waits_for_a_reader() {
        let slowest = Slowest::default();
        let reading = slowest.lists.part(3);
        add(&slowest, 3, 1_000_000, 5000);
        drop(reading);
        assert_eq!(durations(&slowest, 1_000_000), [0; 0]);
    }
}
