//! Time in a simulation.

/// A moment or a length of time, in nanoseconds.
pub type Time = u64;

/// From microseconds as people give them.
pub fn from_us(us: f64) -> Time {
    (us * 1e3).round() as Time
}

/// From milliseconds.
pub fn from_ms(ms: f64) -> Time {
    (ms * 1e6).round() as Time
}

/// For people.
pub fn as_seconds(time: Time) -> f64 {
    time as f64 / 1e9
}
