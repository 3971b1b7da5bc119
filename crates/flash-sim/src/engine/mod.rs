//! A discrete-event simulation's own parts: time, the events to come, waiting lines, stations. Nothing here knows of servers.
//!
//! Time is counted in whole nanoseconds from the beginning of a run, so that sums are exact and a run repeats to the last
//! bit. Whoever waits is a number, a place in a slab that the simulation sizes once, and lines are threaded through a second
//! slab of [`Links`] beside it: nothing is allocated while events happen.

mod events;
mod level;
mod station;
#[cfg(test)]
mod tests;
mod time;
mod wait_queue;

pub use self::events::Events;
pub use self::level::Level;
pub use self::station::Station;
pub use self::time::{Time, as_seconds, from_ms, from_us};
pub use self::wait_queue::{Links, WaitQueue};
