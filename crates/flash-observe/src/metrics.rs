//! Metrics: counters of the server's work, and of sleeps of loops outside their wait.
//!
//! Any thread counts rare events here. Each loop or worker counts the events of every request in [`LoopMetrics`] of its own. So
//! processors do not contend for a cache line. A report sums them up.

mod blocks;
mod loop_metrics;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flash_core::job::Spent;
pub use loop_metrics::{LoopMetrics, Turn};
use parking_lot::Mutex;

use self::blocks::{Blocks, Causes};
use crate::error::ErrorLog;
use crate::format::shown_bytes;
use crate::sleep_recorder::ConnectRecorder;

/// Totals since the server's start.
#[derive(Debug, Default)]
pub struct Metrics {
    pub connections: Counter,
    /// Connections turned away because there were too many, or no descriptor for them.
    pub shed: Counter,
    pub helper_jobs: Counter,
    /// Misses that waited for a job already under way.
    pub joined: Counter,
    /// Jobs refused because the helpers' queue was full.
    pub queue_full: Counter,
    /// Log-ins that were checked.
    pub logins: Counter,
    /// Log-ins refused because too many waited for their check.
    pub logins_refused: Counter,
    pub panics: Counter,
    /// Files that were compressed for the cache, or found not to be worth it.
    pub compressed: Counter,
    loops: Mutex<Vec<Arc<LoopMetrics>>>,
    blocks: Arc<Blocks>,
    /// Those of workers that have ended, among `loops`.
    unused: Mutex<Vec<Arc<LoopMetrics>>>,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metrics {
    /// The metrics of one more loop or worker, which logs to `error_log` when it was caught sleeping.
    pub fn loop_metrics(&self, error_log: ErrorLog) -> Arc<LoopMetrics> {
        if let Some(unused) = self.unused.lock().pop() {
            return unused;
        }
        let metrics = Arc::new(LoopMetrics::new(error_log, Arc::clone(&self.blocks)));
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
        [vec![self.totals(&causes)], self.loops(), causes.lines()].concat()
    }

    /// A worker has ended. The next one goes on counting in its metrics.
    pub fn reuse(&self, metrics: Arc<LoopMetrics>) {
        self.unused.lock().push(metrics);
    }

    pub fn requests(&self) -> u64 {
        self.sum(|metrics| metrics.requests.get())
    }

    /// Sleeps of loops outside their wait.
    pub fn loop_blocks(&self) -> u64 {
        self.sum(LoopMetrics::blocks)
    }

    fn sum(&self, what: impl Fn(&LoopMetrics) -> u64) -> u64 {
        self.loops.lock().iter().map(|metrics| what(metrics)).sum()
    }

    /// What a person wants to know at the end. Threads and processes that wait for the disk themselves count no such waits.
    pub fn summary(&self) -> String {
        let (requests, sent) = (self.requests(), shown_bytes(self.sum(|metrics| metrics.sent_bytes.get())));
        let requests = format!("served {requests} request{}, {sent}", if requests == 1 { "" } else { "s" });
        match (self.sum(LoopMetrics::turns), self.loop_blocks()) {
            (0, _) => requests,
            (_, 1) => format!("{requests}; the disk was waited for once"),
            (_, times) => format!("{requests}; the disk was waited for {times} times"),
        }
    }

    fn loops(&self) -> Vec<String> {
        let loops = self.loops.lock();
        loops.iter().filter(|metrics| metrics.turns() > 0).map(|metrics| metrics.to_string()).collect()
    }

    /// `requests=… connections=…`.
    fn totals(&self, causes: &Causes) -> String {
        let spent_us = |of: fn(&Spent) -> u64| self.sum(|metrics| of(&metrics.spent())) / 1000;
        let counts = [
            ("requests", self.requests()),
            ("connections", self.connections.get()),
            ("shed", self.shed.get()),
            ("helper_jobs", self.helper_jobs.get()),
            ("joined", self.joined.get()),
            ("queue_full", self.queue_full.get()),
            ("logins", self.logins.get()),
            ("logins_refused", self.logins_refused.get()),
            ("loop_blocks", self.loop_blocks()),
            ("panics", self.panics.get()),
            ("compressed", self.compressed.get()),
            ("walk_us", spent_us(|spent| spent.walk_ns)),
            ("open_us", spent_us(|spent| spent.open_ns)),
            ("read_us", spent_us(|spent| spent.read_ns)),
            ("queue_us", spent_us(|spent| spent.queue_ns)),
            ("help_us", spent_us(|spent| spent.help_ns)),
            ("send_us", self.sum(|metrics| metrics.send_us.get())),
            ("sent_bytes", self.sum(|metrics| metrics.sent_bytes.get())),
        ];
        let counts = counts.map(|(name, count)| format!("{name}={count}"));
        format!("{} block_causes={causes}", counts.join(" "))
    }
}

#[cfg(test)]
mod tests;
