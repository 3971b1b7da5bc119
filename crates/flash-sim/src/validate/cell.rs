//! What is compared, on which machine, and how servers did.

use std::time::Duration;

use flash_rig::Facts;
use flash_sim::{Architecture, Parameters};
use serde::Serialize;

/// What the server and the pages that it reads may take.
pub(super) const MEMORY_BYTES: u64 = 128 << 20;

/// Read-ahead is how much of a file is read at a time.
pub(super) const READS_PER_SECOND: u32 = 2_000;

pub(super) const READ_AHEAD_KB: u32 = 128;

/// What Flash takes of the memory for copies of files, unless told otherwise.
pub(super) const FILE_CACHE_BYTES: u64 = MEMORY_BYTES / 4;

/// For every file of the largest site, so that names are no matter.
pub(super) const PATH_ENTRIES: u32 = 16_384;

/// Threads of mt and processes of mp: a client that stays has one to itself.
pub(super) const RUNNERS: u32 = 64;

/// Of each kind: amped may have 64 in all, a pipeline has one.
pub(super) const AMPED_HELPERS: u32 = 32;

/// What is compared.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) data_sets_mb: &'static [u32],
    pub(super) clients: &'static [u32],
    pub(super) measured: Duration,
    pub(super) simulated_requests: u32,
}

pub(super) const WHOLE: Grid = Grid {
    data_sets_mb: &[40, 150, 400],
    clients: &[8, RUNNERS],
    measured: Duration::from_secs(3),
    simulated_requests: 200_000,
};

pub(super) const QUICK: Grid = Grid {
    data_sets_mb: &[40, 400],
    clients: &[RUNNERS],
    measured: Duration::from_secs(1),
    simulated_requests: 50_000,
};

/// How a server did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) requests_per_s: f64,
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// The server's processor.
    pub(super) busy: f64,
    /// Of the disk.
    pub(super) reads_per_request: f64,
}

/// One server under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) architecture: Architecture,
    pub(super) data_set_mb: u32,
    pub(super) clients: u32,
    /// What the server itself held before it was asked for anything, which is not in the models.
    pub(super) server_mb: f64,
    /// Requests that the real server did not answer: where memory ends, the kernel kills.
    pub(super) failed: u64,
    pub(super) measured: Figures,
    pub(super) predicted: Figures,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Validation {
    pub(super) facts: Facts,
    pub(super) parameters: Parameters,
    pub(super) cells: Vec<Cell>,
}
