//! What clients ask a simulated server for, and why there is no outcome.

use std::sync::Arc;

use flash_traffic::Workload;

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
