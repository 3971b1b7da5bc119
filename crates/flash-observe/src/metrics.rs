//! Metrics: counters of the server's work, and of sleeps of loops outside their wait.
//!
//! Any thread counts rare events here. Each loop counts the events of every request in a [`Shard`] of its own. So processors do
//! not contend for a cache line. A report sums them up.

mod blocks;
mod certificates;
mod durations;
mod last_block;
mod loop_metrics;
mod names;
mod programs;
mod rows;
mod shard;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_core::record::counters::{Count, LoopCount};
pub use last_block::LastBlock;
pub use loop_metrics::{LoopMetrics, Turn};
use parking_lot::Mutex;

use self::blocks::{Blocks, Causes};
pub use self::certificates::CertificateEnds;
pub use self::durations::DURATION_BOUNDS_US;
pub use self::names::Names;
pub use self::programs::{Durations, ProgramCounts, ProgramHandle, Programs};
pub use self::shard::{CLASSES, MetricsMemory, Responses, Shard};
use crate::error::ErrorLog;
use crate::format::shown_bytes;
use crate::sleep_recorder::ConnectRecorder;

/// What a process counts since the server's start.
#[derive(Debug)]
pub struct Metrics {
    memory: Arc<MetricsMemory>,
    /// For rare events, of any thread.
    rare: Shard,
    /// TLS handshakes that wait for their turn to take a step.
    pub handshakes_waiting: Gauge,
    /// TLS handshakes that wait for their clients.
    pub handshakes_unfinished: Gauge,
    loops: Mutex<Vec<Arc<LoopMetrics>>>,
    blocks: Arc<Blocks>,
    /// Those of workers that have ended, among `loops`.
    unused: Mutex<Vec<Arc<LoopMetrics>>>,
}

/// A count of what there is at present.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metrics {
    /// Counts in this memory.
    pub fn new(memory: Arc<MetricsMemory>) -> Self {
        let rare = memory.common();
        Self {
            memory,
            rare,
            handshakes_waiting: Gauge::default(),
            handshakes_unfinished: Gauge::default(),
            loops: Mutex::default(),
            blocks: Arc::default(),
            unused: Mutex::default(),
        }
    }

    /// Counts an event that is rare.
    pub fn add(&self, what: Count, count: u64) {
        self.rare.add(what, count);
    }

    /// What all processes that share the memory have counted.
    pub fn get(&self, what: Count) -> u64 {
        self.memory.sum(what)
    }

    pub fn memory(&self) -> &Arc<MetricsMemory> {
        &self.memory
    }

    /// The metrics of one more loop or worker, which logs to `error_log` when it was caught sleeping.
    pub fn loop_metrics(&self, error_log: ErrorLog) -> Arc<LoopMetrics> {
        if let Some(unused) = self.unused.lock().pop() {
            return unused;
        }
        let metrics = Arc::new(LoopMetrics::new(self.memory.shard(), error_log, Arc::clone(&self.blocks)));
        self.loops.lock().push(Arc::clone(&metrics));
        metrics
    }

    /// Starts the thread that logs sleeps of loops with their causes, which it asks a recorder for.
    ///
    /// # Errors
    /// If there can be no thread. Sleeps are logged without their causes then.
    pub fn explain_blocks(&self, error_log: ErrorLog, connect: ConnectRecorder) -> io::Result<()> {
        self.blocks.start(error_log, connect)
    }

    /// Logs the sleeps whose causes were not found yet. It may take a tenth of a second.
    pub fn log_blocks(&self, error_log: &ErrorLog) {
        self.blocks.log_caught(error_log);
    }

    /// The totals, a line for each loop that has turned, and one for each cause of loops' sleeps. It may take a tenth of a
    /// second.
    pub fn report(&self) -> Vec<String> {
        let causes = self.blocks.causes(self.get(Count::LoopBlocks));
        let loops = self.loops().iter().map(ToString::to_string).collect();
        [vec![self.totals(&causes)], loops, causes.lines()].concat()
    }

    /// The causes of loops' sleeps with their number and microseconds, the longest first. It may take a tenth of a second.
    pub fn block_causes(&self) -> Vec<(String, u64, u64)> {
        self.blocks.causes(self.get(Count::LoopBlocks)).list()
    }

    /// The metrics of each loop that has turned. Workers that block never do.
    pub fn loops(&self) -> Vec<Arc<LoopMetrics>> {
        let loops = self.loops.lock();
        loops.iter().filter(|metrics| metrics.get(LoopCount::Turns) > 0).cloned().collect()
    }

    /// A worker has ended. The next one goes on counting in its metrics.
    pub fn reuse(&self, metrics: Arc<LoopMetrics>) {
        self.unused.lock().push(metrics);
    }

    /// The loops that have not come to the end of a turn, each with the turn's number.
    pub fn turns_under_way(&self) -> Vec<(String, u64)> {
        let loops = self.loops.lock();
        // The name only of those that have begun: the first to ask gives it.
        let turn = |metrics: &Arc<LoopMetrics>| {
            metrics.turn_under_way().map(|number| (metrics.name().to_owned(), number))
        };
        loops.iter().filter_map(turn).collect()
    }

    /// What a person wants to know at the end. Threads and processes that wait for the disk themselves count no such waits.
    pub fn summary(&self) -> String {
        let (requests, sent) = (self.get(Count::Requests), shown_bytes(self.get(Count::SentBytes)));
        let requests = format!("served {requests} request{}, {sent}", if requests == 1 { "" } else { "s" });
        match (self.loops().is_empty(), self.get(Count::LoopBlocks)) {
            (true, _) => requests,
            (_, 1) => format!("{requests}; the disk was waited for once"),
            (_, times) => format!("{requests}; the disk was waited for {times} times"),
        }
    }

    /// `requests=… connections=…`.
    fn totals(&self, causes: &Causes) -> String {
        let counts = self.memory.counts();
        let present = [
            ("handshakes_waiting", self.handshakes_waiting.get()),
            ("handshakes_unfinished", self.handshakes_unfinished.get()),
        ];
        let told = counts.told().map(|(row, count)| (row.name, count)).chain(present);
        let told: Vec<String> = told.map(|(name, count)| format!("{name}={count}")).collect();
        format!("{} block_causes={causes}", told.join(" "))
    }
}

#[cfg(test)]
mod tests;
