//! A discrete-event simulation's own parts: time, the events to come, waiting lines, stations. Nothing here knows of servers.
//!
//! Time is counted in whole nanoseconds from the beginning of a run, so that sums are exact and a run repeats to the last
//! bit. Whoever waits is a number, a place in a slab that the simulation sizes once, and lines are threaded through a second
//! slab of [`Links`] beside it: nothing is allocated while events happen.

mod events;
mod level;
mod line;
mod station;
#[cfg(test)]
mod tests;

pub use self::events::Events;
pub use self::level::Level;
pub use self::line::{Line, Links};
pub use self::station::Station;

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
