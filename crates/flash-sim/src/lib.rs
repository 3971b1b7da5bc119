//! The discrete-event simulator: the architectures of the papers, and their successors, on machines that one does not have.
//!
//! [`simulate`] runs one server under one load and says how fast it was, where requests waited, and for what. A run is one
//! thread and depends on nothing but its [`Parameters`] and its [`Demand`]: the same seed gives the same [`Outcome`].
//!
//! - [`parameters`]: everything a run depends on, with the paper's choices and ours.
//! - [`model`]: the architectures, a file each: who runs the steps of a request, and who waits.
//! - [`machine`]: processors, disks, caches, locks: what models are interpreted on.
//! - [`policy`]: what caches keep, to compare without time.
//! - [`engine`]: time, events, queues; it knows nothing of servers.
//!
//! It reads no clock, opens no file and starts no thread; sweeps, tables and figures are the program's.

#![forbid(unsafe_code)]

mod demand;
pub mod engine;
pub mod machine;
pub mod model;
pub mod outcome;
pub mod parameters;
pub mod policy;

pub use self::demand::{Demand, SimulationError};
pub use self::outcome::Outcome;
pub use self::parameters::{Architecture, Parameters};

/// Runs one server under one load.
pub fn simulate(parameters: &Parameters, demand: &Demand) -> Result<Outcome, SimulationError> {
    machine::simulate(parameters, demand)
}
