//! What is compared, on which machine, and how servers did.

use std::time::Duration;

use flash_rig::Facts;
use flash_sim::parameters::Disk;
use flash_sim::{Architecture, Parameters};
use serde::{Deserialize, Serialize};

/// What the server and the pages that it reads may take.
pub(super) const MEMORY_BYTES: u64 = 128 << 20;

pub(super) const READS_PER_SECOND: u32 = 2_000;

/// How much the kernel reads ahead by itself.
pub(super) const READ_AHEAD_KB: u32 = 128;

/// Servers ask for so much of a file at once. The disk takes that in one read.
pub(super) const READ_KB: u32 = 1_024;

/// What Flash takes of the memory for copies of files, unless told otherwise.
pub(super) const FILE_CACHE_BYTES: u64 = MEMORY_BYTES / 4;

/// For every file of the largest site, so that names are no matter.
pub(super) const PATH_ENTRIES: u32 = 16_384;

/// Threads of mt: a client that stays has one to itself.
pub(super) const THREADS: u32 = 64;

/// What mp starts with so much memory: a process for each 4 MiB.
pub(super) const PROCESSES: u32 = 32;

/// Of each kind: amped may have 16 in all, one for each 8 MiB, and a pipeline has one.
pub(super) const AMPED_HELPERS: u32 = 8;

const CLIENTS_MAX: u32 = 64;

/// What is compared.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) data_sets_mb: Vec<u32>,
    pub(super) architectures: Vec<Architecture>,
    pub(super) clients: Vec<u32>,
    pub(super) measured: Duration,
    pub(super) simulated_requests: u32,
}

impl Grid {
    pub(super) fn whole() -> Grid {
        Grid {
            data_sets_mb: vec![40, 150, 400],
            architectures: Architecture::ALL.to_vec(),
            clients: vec![8, CLIENTS_MAX],
            measured: Duration::from_secs(3),
            simulated_requests: 200_000,
        }
    }

    pub(super) fn quick() -> Grid {
        Grid {
            data_sets_mb: vec![40, 400],
            clients: vec![CLIENTS_MAX],
            measured: Duration::from_secs(1),
            simulated_requests: 50_000,
            ..Grid::whole()
        }
    }
}

/// How a server did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) architecture: Architecture,
    pub(super) data_set_mb: u32,
    pub(super) clients: u32,
    /// What the server held under this load, and the kernel for it, beside files: the models leave that out.
    pub(super) server_mb: f64,
    /// Requests that the real server did not answer: where memory ends, the kernel kills.
    pub(super) failed: u64,
    pub(super) measured: Figures,
    pub(super) predicted: Figures,
}

/// The disk that all files are on, as it is without limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FreeDisk {
    pub(super) disk: Disk,
    pub(super) requests_at_once: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Validation {
    pub(super) facts: Facts,
    pub(super) disk: FreeDisk,
    pub(super) parameters: Parameters,
    pub(super) cells: Vec<Cell>,
}
