//! The state of one process that serves, shared by its loops or workers.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use flash_core::job::{Done, Failure, Job, Outcome};
use flash_core::upstream::Upstreams;
use flash_core::{Server, TransportInfo};
use flash_disk::Disk;
use flash_http::Scheme;
use flash_observe::metrics::Metrics;
use flash_observe::{AccessLog, ConnectRecorder, ErrorLog, RateLimit};
use flash_tls::Endpoints;
use parking_lot::Mutex;

use crate::completion_queue::CompletionQueue;
use crate::compression_queue::CompressionQueue;
use crate::configuration::{Configuration, PresentConfiguration};
use crate::connection_permit::ConnectionPermits;
use crate::document_root;
use crate::helper_processes::HelperKind;
use crate::limits::Limits;
use crate::listener::{Listener, Listeners};
use crate::login_gates::LoginGates;
use crate::login_pool::LoginPool;
use crate::reload_request::ReloadRequest;
use crate::transport::Transport;

/// The parts of a process that serves.
pub struct ServerParts {
    pub server: Server,
    pub disk: Disk,
    pub access_log: Option<AccessLog>,
    pub error_log: ErrorLog,
    pub helper_kind: HelperKind,
    /// Opens the upstreams of the sites, if they have any.
    pub programs: Option<Arc<dyn Upstreams>>,
    /// Explains why loops slept.
    pub sleep_recorder: ConnectRecorder,
    /// What answers TLS handshakes, if a listener speaks TLS.
    pub tls: Option<Arc<Endpoints>>,
    /// Log every counter at the end.
    pub verbose: bool,
}

pub struct ServerState {
    configuration: PresentConfiguration,
    /// Those that loops accept from.
    pub(crate) listeners: ArcSwap<Listeners>,
    pub(crate) disk: Disk,
    pub(crate) error_log: ErrorLog,
    pub(crate) helper_kind: HelperKind,
    /// Those of the start, until the thread that reloads has them.
    programs: Mutex<Option<Arc<dyn Upstreams>>>,
    tls: Option<Arc<Endpoints>>,
    pub(crate) compressions: CompressionQueue,
    pub(crate) metrics: Arc<Metrics>,
    /// Checks the passwords of users.
    pub(crate) logins: Arc<LoginPool>,
    sleep_recorder: ConnectRecorder,
    verbose: bool,
    pub(crate) permits: Arc<ConnectionPermits>,
    /// The completion queues of all loops that may have idle connections.
    pub(crate) loops: OnceLock<Vec<Arc<CompletionQueue>>>,
    reloads: OnceLock<Sender<ReloadRequest>>,
    /// Finish requests under way, and accept nothing new.
    draining: AtomicBool,
    /// The time to drain has passed: workers that block end what is under way.
    gave_up: AtomicBool,
}

impl ServerState {
    pub(crate) fn new(parts: ServerParts, limits: Limits) -> Arc<Self> {
        let ServerParts {
            server,
            disk,
            access_log,
            error_log,
            helper_kind,
            programs,
            sleep_recorder,
            tls,
            verbose,
        } = parts;
        document_root::tell_all(&disk, &server.hosts);
        let metrics = Arc::new(Metrics::default());
        let logins = LoginPool::new(Arc::clone(&metrics), error_log.clone());
        Arc::new(Self {
            configuration: PresentConfiguration::new(Configuration { server, access_log, limits }),
            listeners: ArcSwap::default(),
            disk,
            error_log,
            helper_kind,
            programs: Mutex::new(programs),
            tls,
            compressions: CompressionQueue::default(),
            metrics,
            logins,
            sleep_recorder,
            verbose,
            permits: ConnectionPermits::new(limits.connections_max),
            loops: OnceLock::new(),
            reloads: OnceLock::new(),
            draining: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
        })
    }

    /// The transport of a new connection, which its listener has described.
    pub(crate) fn transport(&self, info: &TransportInfo) -> Transport {
        Transport::new(self.tls.as_ref().filter(|_| info.scheme == Scheme::Https))
    }

    /// Starts the threads that check log-ins, if a site has users. The processes of mp share `gates`.
    pub(crate) fn start_logins(&self, gates: Option<&LoginGates>) -> io::Result<()> {
        self.logins.start_for(&self.configuration().server, gates)
    }

    /// Puts another configuration in the place of the present one, which is returned.
    pub(crate) fn replace_configuration(&self, next: Configuration) -> Arc<Configuration> {
        self.configuration.replace(next)
    }

    /// What opens the upstreams of the start, for the thread that keeps them.
    pub(crate) fn take_programs(&self) -> Option<Arc<dyn Upstreams>> {
        self.programs.lock().take()
    }

    /// Sets what takes requests to reload.
    pub(crate) fn set_reloads(&self, reloads: Sender<ReloadRequest>) {
        let _ = self.reloads.set(reloads);
    }

    /// What takes requests to reload, if there is something to read again.
    pub(crate) fn reloads(&self) -> Option<&Sender<ReloadRequest>> {
        self.reloads.get()
    }

    /// Sets the listeners of the start, which do not block.
    pub(crate) fn listen(&self, listeners: Vec<Arc<Listener>>) -> io::Result<()> {
        for listener in &listeners {
            listener.set_nonblocking()?;
        }
        self.listeners.store(Arc::new(listeners.into_iter().map(Some).collect()));
        Ok(())
    }

    /// Refuses later connections.
    pub(crate) fn shut_listeners(&self) {
        self.listeners.load().iter().flatten().for_each(|listener| listener.shut());
    }

    /// The present configuration, for a call that does not last.
    pub(crate) fn configuration(&self) -> Guard<Arc<Configuration>> {
        self.configuration.load()
    }

    pub(crate) fn present(&self) -> &PresentConfiguration {
        &self.configuration
    }

    /// How long exchanges under way may take after a signal to stop.
    pub(crate) fn drain_time(&self) -> Duration {
        self.configuration().limits.drain
    }

    /// Does a job in this thread, which waits for the disk.
    pub(crate) fn run(&self, job: &Job) -> Outcome {
        let outcome = self.disk.run(job);
        self.configuration().server.cache_result(job, &outcome.done);
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
        let _ = self.metrics.explain_blocks(self.error_log.clone(), Arc::clone(&self.sleep_recorder));
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
        wait(self.drain_time());
        self.gave_up.store(true, Ordering::Relaxed);
        wait(worker_patience);
    }

    /// Whether a worker shall end what is under way.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Closes the logs. Logs the metrics before that, if `say` is set.
    pub(crate) fn close(&self, say: bool) {
        if let Some(log) = &self.configuration().access_log {
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

    /// Logs the totals since the start, and a line for each loop and each cause of blocks.
    pub(crate) fn log_metrics(&self, state: &str) {
        for (number, line) in self.metrics.report().into_iter().enumerate() {
            match number {
                0 => self.error_log.log(format_args!("{state}: {line}")),
                _ => self.error_log.log(format_args!("{line}")),
            }
        }
    }

    pub(crate) fn reopen_logs(&self) {
        if let Some(log) = &self.configuration().access_log {
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
