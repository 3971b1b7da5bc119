//! Time as an argument: drivers read the clock and pass the reading on.

use flash_http::date;

/// One reading of the clock, for one turn of a loop.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since the server's start.
    pub us: u64,
    pub unix_ms: u64,
    /// The `Date` field's value (RFC 9110 §5.6.7).
    pub date: [u8; 29],
}

impl Now {
    pub fn new(us: u64, unix_ms: u64) -> Self {
        Self { us, unix_ms, date: date::format((unix_ms / 1000) as i64) }
    }

    pub fn ms(&self) -> u64 {
        self.us / 1000
    }

    /// Since the Unix epoch.
    pub(crate) fn unix_ns(&self) -> i64 {
        self.unix_ms as i64 * 1_000_000
    }

    /// The second that the date shows, since the Unix epoch.
    pub(crate) fn unix_seconds(&self) -> i64 {
        (self.unix_ms / 1000) as i64
    }

    /// Sets the clock forward. The date is formatted again only if its second has changed.
    pub fn advance(&mut self, us: u64) {
        let unix_us_before = self.unix_ms * 1000;
        let unix_ms = self.unix_ms + (us / 1000 - self.us / 1000);
        if unix_us_before / 1_000_000 != unix_ms / 1000 {
            self.date = date::format((unix_ms / 1000) as i64);
        }
        self.us = us;
        self.unix_ms = unix_ms;
    }
}
