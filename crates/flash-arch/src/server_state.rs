//! The state of one process that serves, shared by its loops or workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use flash_core::Server;
use flash_core::job::{Done, Failure, Job, Outcome};
use flash_core::upstream::Upstreams;
use flash_disk::Disk;
use flash_observe::metrics::Metrics;
use flash_observe::{AccessLog, ErrorLog, RateLimit};

use crate::completion_queue::CompletionQueue;
use crate::connection_permit::ConnectionPermits;
use crate::helper_processes::HelperKind;
use crate::limits::Limits;

/// The parts of a process that serves.
pub struct ServerParts {
    pub server: Server,
    pub disk: Disk,
    pub access_log: Option<AccessLog>,
    pub error_log: ErrorLog,
    pub helper_kind: HelperKind,
    /// Opens upstreams, if the site has any.
    pub programs: Option<Arc<dyn Upstreams>>,
    /// Log every counter at the end.
    pub verbose: bool,
}

pub struct ServerState {
    pub(crate) server: Server,
    pub(crate) disk: Disk,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) error_log: ErrorLog,
    pub(crate) helper_kind: HelperKind,
    pub(crate) programs: Option<Arc<dyn Upstreams>>,
    pub(crate) metrics: Metrics,
    verbose: bool,
    pub(crate) limits: Limits,
    pub(crate) permits: Arc<ConnectionPermits>,
    /// The completion queues of all loops that may have idle connections.
    pub(crate) loops: OnceLock<Vec<Arc<CompletionQueue>>>,
    /// Finish requests under way, and accept nothing new.
    draining: AtomicBool,
    /// The time to drain has passed: workers that block end what is under way.
    gave_up: AtomicBool,
}

impl ServerState {
    pub(crate) fn new(parts: ServerParts, limits: Limits) -> Arc<Self> {
        let ServerParts { server, disk, access_log, error_log, helper_kind, programs, verbose } = parts;
        Arc::new(Self {
            server,
            disk,
            access_log,
            error_log,
            helper_kind,
            programs,
            metrics: Metrics::default(),
            verbose,
            limits,
            permits: ConnectionPermits::new(limits.connections_max),
            loops: OnceLock::new(),
            draining: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
        })
    }

    /// Does a job in this thread, which waits for the disk.
    pub(crate) fn run(&self, job: &Job) -> Outcome {
        let outcome = self.disk.run(job);
        self.server.cache_result(job, &outcome.done);
        self.note(job, &outcome.done);
        outcome
    }

    /// Logs failures of jobs that only an operator can repair.
    pub(crate) fn note(&self, job: &Job, done: &Done) {
        static OVER_BUDGET: RateLimit = RateLimit::every(Duration::from_secs(5));
        if let (Job::List(list), Done::Failed(Failure::OverBudget)) = (job, done) {
            let path = list.path.as_bytes().escape_ascii();
            let mib = self.disk.listings_bytes_max() >> 20;
            self.error_log.log_limited(
                &OVER_BUDGET,
                format_args!("{path}: refused, its listing exceeds what is left of {mib} MiB for listings"),
            );
        }
    }

    /// Has sleeps of loops logged with their causes. Without the thread for that, they are logged without.
    pub(crate) fn explain_blocks(&self) {
        let _ = self.metrics.explain_blocks(self.error_log.clone());
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Waits until all connections are closed. When the time to drain has passed, has workers end the others, and waits for
    /// their last lines in the log.
    pub(crate) fn wait_for_connections(&self, worker_patience: Duration) {
        let wait = |patience| {
            let give_up = Instant::now() + patience;
            while self.permits.are_taken() && Instant::now() < give_up {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        wait(self.limits.drain);
        self.gave_up.store(true, Ordering::Relaxed);
        wait(worker_patience);
    }

    /// Whether a worker shall end what is under way.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Closes the logs. Logs the metrics before that, if `say` is set.
    pub(crate) fn close(&self, say: bool) {
        if let Some(log) = &self.access_log {
            log.clone().close();
        }
        if say {
            self.metrics.log_blocks(&self.error_log);
            if self.verbose {
                self.log_metrics("stopped");
            }
            self.error_log.log(format_args!("stopped: {}", self.metrics.summary()));
        }
        self.error_log.clone().close();
    }

    /// Logs the totals since the start, and a line for each loop.
    pub(crate) fn log_metrics(&self, state: &str) {
        self.error_log.log(format_args!("{state}: {}", self.metrics));
        for line in self.metrics.loops().into_iter().chain(self.metrics.block_causes()) {
            self.error_log.log(format_args!("{line}"));
        }
    }

    pub(crate) fn reopen_logs(&self) {
        if let Some(log) = &self.access_log {
            log.reopen();
        }
        self.error_log.reopen();
    }

    /// Logs a panic, which ends one connection and no other.
    pub(crate) fn panicked(&self, panic: &(dyn std::any::Any + Send)) {
        static PANICS: RateLimit = RateLimit::every(Duration::from_secs(1));
        let what = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown");
        self.metrics.panics.add(1);
        self.error_log.log_limited(&PANICS, format_args!("internal error, one connection closed: {what}"));
    }
}
