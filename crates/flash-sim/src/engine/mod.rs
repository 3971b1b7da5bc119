//! The parts of any discrete-event simulation: time, future events, wait queues, stations. This module knows nothing of
//! servers.
//!
//! Time counts whole nanoseconds from the start of a run. So sums are exact, and a run repeats to the last bit. A waiting
//! customer is a number: its place in a slab that the simulation sizes once. A second slab of [`Links`] holds the wait queues.
//! So the engine allocates nothing while events happen.

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
