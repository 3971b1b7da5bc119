//! The clock. Loops and workers read it here and pass the time down as an argument.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use flash_core::Now;

/// How often the wall clock is read.
const WALL_EVERY_US: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Clock {
    wall_read_us: u64,
    pub(crate) now: Now,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let us = server_us(Instant::now());
        Self { wall_read_us: us, now: Now::new(us, unix_ms()) }
    }

    /// Reads the time, and returns it.
    pub(crate) fn read(&mut self) -> Instant {
        let now = Instant::now();
        let us = server_us(now);
        if us - self.wall_read_us >= WALL_EVERY_US {
            // The wall clock may have been set since the last read.
            self.wall_read_us = us;
            self.now = Now::new(us, unix_ms());
        } else {
            self.now.advance(us);
        }
        now
    }
}

/// A moment in microseconds since the server's start. All threads count from the same start, so they can compare
/// times.
pub fn server_us(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    at.saturating_duration_since(*START.get_or_init(Instant::now)).as_micros() as u64
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
