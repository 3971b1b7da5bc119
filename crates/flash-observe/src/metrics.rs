//! Metrics: counters of the server's work, and of sleeps of loops outside their wait.
//!
//! Any thread counts rare events here. Each loop counts the events of every request in a [`Shard`] of its own. So processors do
//! not contend for a cache line. A report sums them up.

mod blocks;
mod certificates;
mod last_block;
mod loop_metrics;
mod names;
mod programs;
mod rows;
mod shard;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use last_block::LastBlock;
pub use loop_metrics::{LoopMetrics, Turn};
use parking_lot::Mutex;

use self::blocks::{Blocks, Causes};
pub use self::certificates::CertificateEnds;
pub use self::names::Names;
pub use self::programs::{ProgramCounts, ProgramGauge, ProgramHandle, ProgramTotal, Programs};
pub use self::shard::{CLASSES, Count, DURATION_BOUNDS_US, MetricsMemory, Responses, Shard};
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
        let causes = self.blocks.causes(self.loop_blocks());
        [vec![self.totals(&causes)], self.loop_lines(), causes.lines()].concat()
    }

    /// The causes of loops' sleeps with their number and microseconds, the longest first. It may take a tenth of a second.
    pub fn block_causes(&self) -> Vec<(String, u64, u64)> {
        self.blocks.causes(self.loop_blocks()).list()
    }

    /// The metrics of each loop or worker.
    pub fn loops(&self) -> Vec<Arc<LoopMetrics>> {
        self.loops.lock().clone()
    }

    /// A worker has ended. The next one goes on counting in its metrics.
    pub fn reuse(&self, metrics: Arc<LoopMetrics>) {
        self.unused.lock().push(metrics);
    }

    pub fn requests(&self) -> u64 {
        self.get(Count::Requests)
    }

    /// Sleeps of loops outside their wait.
    pub fn loop_blocks(&self) -> u64 {
        self.sum(LoopMetrics::blocks)
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

    fn sum(&self, what: impl Fn(&LoopMetrics) -> u64) -> u64 {
        self.loops.lock().iter().map(|metrics| what(metrics)).sum()
    }

    /// What a person wants to know at the end. Threads and processes that wait for the disk themselves count no such waits.
    pub fn summary(&self) -> String {
        let (requests, sent) = (self.requests(), shown_bytes(self.get(Count::SentBytes)));
        let requests = format!("served {requests} request{}, {sent}", if requests == 1 { "" } else { "s" });
        match (self.sum(LoopMetrics::turns), self.loop_blocks()) {
            (0, _) => requests,
            (_, 1) => format!("{requests}; the disk was waited for once"),
            (_, times) => format!("{requests}; the disk was waited for {times} times"),
        }
    }

    fn loop_lines(&self) -> Vec<String> {
        let loops = self.loops.lock();
        loops.iter().filter(|metrics| metrics.turns() > 0).map(|metrics| metrics.to_string()).collect()
    }

    /// `requests=… connections=…`.
    fn totals(&self, causes: &Causes) -> String {
        let us = |what| self.get(what) / 1000;
        let counts = [
            ("requests", self.requests()),
            ("connections", self.get(Count::Connections)),
            ("shed", self.get(Count::Shed)),
            ("evicted", self.get(Count::Evicted)),
            ("helper_jobs", self.get(Count::HelperJobs)),
            ("joined", self.get(Count::Joined)),
            ("queue_full", self.get(Count::QueueFull)),
            ("logins", self.get(Count::Logins)),
            ("logins_refused", self.get(Count::LoginsRefused)),
            ("handshakes_full", self.get(Count::HandshakesFull)),
            ("handshakes_resumed", self.get(Count::HandshakesResumed)),
            ("handshakes_failed", self.get(Count::HandshakesFailed)),
            ("handshakes_shed", self.get(Count::HandshakesShed)),
            ("handshakes_waiting", self.handshakes_waiting.get()),
            ("handshakes_unfinished", self.handshakes_unfinished.get()),
            ("loop_blocks", self.loop_blocks()),
            ("panics", self.get(Count::Panics)),
            ("compressed", self.get(Count::Compressed)),
            ("spooled_bytes", self.get(Count::SpooledBytes)),
            ("programs_held", self.get(Count::ProgramsHeld)),
            ("walk_us", us(Count::WalkNs)),
            ("open_us", us(Count::OpenNs)),
            ("read_us", us(Count::ReadNs)),
            ("queue_us", us(Count::QueueNs)),
            ("help_us", us(Count::HelpNs)),
            ("send_us", self.get(Count::SendUs)),
            ("sent_bytes", self.get(Count::SentBytes)),
        ];
        let counts = counts.map(|(name, count)| format!("{name}={count}"));
        format!("{} block_causes={causes}", counts.join(" "))
    }
}

#[cfg(test)]
mod tests;
