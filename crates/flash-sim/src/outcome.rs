//! What a run says at its end.

use serde::{Deserialize, Serialize};

use crate::model::Cache;

/// A run's results, all over its measured part: after the settling requests, until the last measured one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub requests: u64,
    /// Simulated time.
    pub seconds: f64,
    pub requests_per_s: f64,
    /// Of content.
    pub mbit_per_s: f64,
    /// From sending a request until its last byte.
    pub latency: Latency,
    /// How far small requests wait behind large ones (Ruan and Pai, 2006): 0 answers in the order of size, 1 in its reverse.
    pub service_inversion: f64,
    /// Of look-ups, one for each request.
    pub data_hit_rate: f64,
    pub path_hit_rate: f64,
    /// Of disks, directories and content alike.
    #[serde(default)]
    pub reads_per_request: f64,
    /// What the data caches had room for, all together, and what of it they held at the end.
    pub data_cache_mb: f64,
    pub data_cached_mb: f64,
    /// Threads, helpers and books, at the end.
    pub overhead_mb: f64,
    pub processors: Processors,
    /// In the order of the parameters; directories and content alike.
    pub disks: Vec<Station>,
    pub link: Option<Station>,
    /// Empty where there are no locks; the pathname cache's first.
    pub locks: Vec<Lock>,
    /// The queues between runners, by the name of who takes from them: those for new connections first.
    pub queues: Vec<Queue>,
    /// What the simulation itself had to do.
    pub events_per_request: f64,
    pub checks: Checks,
    /// Everything that happened to the request that was followed, if one was.
    pub timeline: Vec<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// All of them together; parts of their whole time add up to `busy`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Processors {
    pub busy: f64,
    /// Of it, for turning from one thread or process to another.
    pub switching: f64,
    /// Of it, for spinning at locks.
    pub spinning: f64,
    pub switches_per_request: f64,
    /// Runners that could run, but for a processor.
    pub queue_mean: f64,
    pub wait_mean_us: f64,
}

/// A disk, or the link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Station {
    pub busy: f64,
    pub served: u64,
    /// Without what is being served.
    pub queue_mean: f64,
    pub wait_mean_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// The part of the time that it was taken, waits for a processor while holding it included.
    pub held: f64,
    pub taken: u64,
    /// The part of `taken` that had to wait.
    pub contended: f64,
    /// Over all of `taken`, until it was had; so is the next.
    pub wait_mean_us: f64,
    pub queue_mean: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    pub role: String,
    /// All queues of that role together.
    pub queue_mean: f64,
    pub wait_mean_us: f64,
}

/// Laws that hold in every run, as relative errors; debug builds insist on them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Clients against throughput × mean time in the system, over the whole run.
    pub littles_law_error: f64,
    /// Processor time given out against processor time that passed, over the whole run.
    pub work_conservation_error: f64,
}

/// A moment in the life of the request that was followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Since the client sent it.
    pub at_us: f64,
    pub event: Event,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Into the queue of a role's runner.
    Queued {
        role: String,
    },
    /// A runner turns to it, or back to it.
    Taken {
        role: String,
    },
    /// Has a processor for so long.
    Uses {
        processor: u32,
        us: f64,
    },
    /// Its runner waits for a processor.
    Ready,
    Locks {
        lock: usize,
    },
    /// Stands at a lock that is taken.
    WaitsForLock {
        lock: usize,
    },
    Unlocks {
        lock: usize,
    },
    Hit {
        cache: Cache,
    },
    Miss {
        cache: Cache,
    },
    /// In the disk's queue.
    WaitsForDisk {
        disk: u32,
    },
    Reads {
        disk: u32,
        ms: f64,
    },
    /// On its way to the client.
    OnTheWire,
    Done,
}
