//! The discrete-event simulator: the architectures of the papers, and their successors, on machines that one does not have.
//!
//! [`simulate`] runs one server under one load and says how fast it was, where requests waited, and for what. A run is one
//! thread and depends on nothing but its [`Parameters`] and its [`Demand`]: the same seed gives the same [`Outcome`].
//!
//! - [`parameters`]: everything a run depends on, with the paper's choices and ours.
//! - [`model`]: the architectures, a file each: who runs the steps of a request, and who waits.
//! - [`machine`]: processors, disks, caches, locks: what models are interpreted on.
//! - [`engine`]: time, events, queues; it knows nothing of servers.
//!
//! It reads no clock, opens no file and starts no thread; sweeps, tables and figures are the program's.

#![forbid(unsafe_code)]

pub mod engine;
pub mod machine;
pub mod model;
pub mod outcome;
pub mod parameters;

use std::sync::Arc;

use flash_traffic::Workload;

pub use self::outcome::Outcome;
pub use self::parameters::{Architecture, Parameters};

/// What clients ask for.
#[derive(Clone)]
pub struct Demand {
    /// Files whose size nobody knows are taken for empty. A sequence that ends begins again.
    pub workload: Arc<dyn Workload>,
    /// Each file's share of the requests, up to a factor, where requests do not depend on earlier ones.
    ///
    /// Caches begin warm: requests pass through them in no time until they are full, and whatever is not full after two
    /// requests a file (and no fewer than 100,000) is filled up, at its old end, with files in the order in which they were
    /// likely asked for last. With these shares that is exact, however large the caches are; without, the requests that
    /// passed are counted instead.
    pub popularity: Option<Arc<[f64]>>,
    /// The request, counted from the first measured one, whose life [`Outcome::timeline`] shall tell.
    pub follow: Option<u64>,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SimulationError {
    #[error("the workload has no requests")]
    Empty,
    #[error(
        "threads and helpers take {overhead_mb:.1} MB, and memory_mb is {memory_mb:.1}: expected more, in MB"
    )]
    Memory { overhead_mb: f64, memory_mb: f64 },
    #[error("a request costs nothing: expected at least one of the costs of every request above 0, in us")]
    Free,
    #[error("machine.disks is empty: expected at least one disk")]
    Diskless,
}

/// Runs one server under one load.
pub fn simulate(parameters: &Parameters, demand: &Demand) -> Result<Outcome, SimulationError> {
    machine::simulate(parameters, demand)
}
