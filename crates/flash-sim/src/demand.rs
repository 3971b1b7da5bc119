//! What clients ask a simulated server for, and why there is no outcome.

use std::sync::Arc;

use flash_traffic::Workload;

/// What clients ask for.
#[derive(Clone)]
pub struct Demand {
    /// Files of unknown size count as empty. A sequence that ends begins again.
    pub workload: Arc<dyn Workload>,
    /// Each file's share of the requests, up to a factor, if requests do not depend on earlier ones.
    ///
    /// Caches start warm. Requests pass through them in no time until they are full, at most two for each file, and at least
    /// 100,000. Then the rest of each cache is filled at its old end. The order of these files is the likely order of their
    /// last requests. With these shares that order is exact for caches of any size. Without them, the model counts the requests
    /// that passed.
    pub popularity: Option<Arc<[f64]>>,
    /// The request, counted from the first measured one, whose life [`Outcome::timeline`](crate::Outcome::timeline) shall tell.
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
