//! The state of one process that serves, shared by its loops or workers.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use flash_core::job::{Done, Failure, Job, Outcome};
use flash_core::record::counters::Count;
use flash_core::upstream::Upstreams;
use flash_core::{Drain, Server, TransportInfo};
use flash_disk::Disk;
use flash_http::Scheme;
use flash_observe::metrics::{Gauge, Metrics, MetricsMemory};
use flash_observe::{AccessLogs, ConnectRecorder, ErrorLog, OnReopened, RateLimit};
use flash_process::{EarlierServers, HotPath, ServiceManager};
use flash_tls::Endpoints;
use parking_lot::Mutex;

use crate::admin::slowest::Slowest;
use crate::admin::snapshot::KnowsDevices;
use crate::admin::top_clients::TopClients;
use crate::background::queue::BackgroundQueue;
use crate::clock::server_us;
use crate::connections::gates::ProcessGates;
use crate::connections::listener::{Listener, Listeners};
use crate::connections::loop_threads::LoopThreads;
use crate::connections::permit::ConnectionPermits;
use crate::connections::transport::Transport;
use crate::document_root;
use crate::helper_processes::HelperKind;
use crate::limits::Limits;
use crate::login_pool::LoginPool;
use crate::service::configuration::{Configuration, PresentConfiguration};
use crate::service::reply::{ReloadRequest, Reply};
use crate::service::upgrade::UpgradeQueue;

/// How many paths a server names to its successor.
pub(crate) const HOT_PATHS_MAX: usize = 1_000;
/// How long loops that stop may take to leave their listeners.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);

/// The parts of a process that serves.
pub struct ServerParts {
    pub server: Server,
    pub disk: Disk,
    pub access_logs: AccessLogs,
    pub error_log: ErrorLog,
    pub helper_kind: HelperKind,
    /// Opens the upstreams of the sites, if they have any.
    pub programs: Option<Arc<dyn Upstreams>>,
    /// Explains why loops slept.
    pub sleep_recorder: ConnectRecorder,
    /// What answers TLS handshakes.
    pub tls: Arc<Endpoints>,
    /// Where it counts. The processes of mp share it.
    pub metrics_memory: Arc<MetricsMemory>,
    /// Log every counter at the end.
    pub verbose: bool,
}

impl ServerParts {
    /// Helpers wait for the disk, so threads that serve never do.
    pub(crate) fn leave_to_helpers(&mut self) -> io::Result<()> {
        self.disk.close_elsewhere()?;
        self.disk.watch_mounts()
    }
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
    /// Of all configurations that loops hold.
    pub(crate) tls: Arc<Endpoints>,
    pub(crate) background: BackgroundQueue,
    pub(crate) metrics: Arc<Metrics>,
    /// All helpers, for administrators.
    pub(crate) helpers: Mutex<Vec<Weak<dyn KnowsDevices>>>,
    pub(crate) slowest: Slowest,
    pub(crate) top_clients: TopClients,
    /// Checks the passwords of users.
    pub(crate) logins: Arc<LoginPool>,
    sleep_recorder: ConnectRecorder,
    verbose: bool,
    pub(crate) permits: Arc<ConnectionPermits>,
    /// Connections of workers that block whose handshakes wait for their clients. Loops count their own.
    pub(crate) unfinished: Arc<Gauge>,
    /// Each acceptor that watches the listeners holds a clone.
    pub(crate) acceptors: Arc<()>,
    pub(crate) threads: OnceLock<LoopThreads>,
    /// Takes requests to reload.
    reloads: OnceLock<Sender<ReloadRequest>>,
    /// What administrators ask of the thread that upgrades.
    pub(crate) upgrades: OnceLock<UpgradeQueue>,
    /// What the server lacks since a thread has ended that it cannot do without.
    failure: OnceLock<String>,
    /// What has started the server. Processes of mp have none.
    manager: OnceLock<ServiceManager>,
    /// Servers whose place was taken before.
    pub(crate) earlier_servers: OnceLock<EarlierServers>,
    /// Finish requests under way, and accept nothing new.
    draining: AtomicBool,
    /// A successor accepts in this server's place.
    has_successor: AtomicBool,
    /// When exchanges under way are ended, by the [clock](crate::clock) of the server.
    give_up_ms: AtomicU64,
    /// Nothing is left that a signal could end sooner.
    is_over: AtomicBool,
    /// The time to drain has passed: workers that block end what is under way.
    gave_up: AtomicBool,
}

impl ServerState {
    pub(crate) fn new(parts: ServerParts, limits: Limits) -> Arc<Self> {
        let ServerParts {
            server,
            disk,
            access_logs,
            error_log,
            helper_kind,
            programs,
            sleep_recorder,
            tls,
            metrics_memory,
            verbose,
        } = parts;
        document_root::tell_all(&disk, &server.hosts);
        let metrics = Arc::new(Metrics::new(metrics_memory));
        let endpoints = tls.all();
        let logins = LoginPool::new(Arc::clone(&metrics), error_log.clone());
        Arc::new(Self {
            configuration: PresentConfiguration::new(Configuration {
                server,
                access_logs,
                limits,
                endpoints,
            }),
            listeners: ArcSwap::default(),
            disk,
            error_log,
            helper_kind,
            programs: Mutex::new(programs),
            tls,
            background: BackgroundQueue::default(),
            metrics,
            helpers: Mutex::default(),
            slowest: Slowest::default(),
            top_clients: TopClients::default(),
            logins,
            sleep_recorder,
            verbose,
            permits: ConnectionPermits::new(limits.connections_max),
            unfinished: Arc::default(),
            acceptors: Arc::default(),
            threads: OnceLock::new(),
            reloads: OnceLock::new(),
            upgrades: OnceLock::new(),
            failure: OnceLock::new(),
            manager: OnceLock::new(),
            earlier_servers: OnceLock::new(),
            draining: AtomicBool::new(false),
            has_successor: AtomicBool::new(false),
            give_up_ms: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
        })
    }

    /// The transport of a new connection, which its listener has described. `unfinished` counts handshakes of its loop.
    pub(crate) fn transport(&self, info: &TransportInfo, unfinished: &Arc<Gauge>, now_ms: u64) -> Transport {
        match info.scheme {
            Scheme::Https => Transport::tls(&self.tls, &self.metrics, unfinished, now_ms),
            Scheme::Http => Transport::default(),
        }
    }

    /// Starts the threads that check log-ins, if a site has users. The processes of mp share `gates`.
    pub(crate) fn start_logins(&self, gates: Option<&ProcessGates>) -> io::Result<()> {
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

    /// Closes the listeners once no loop watches them. A loop would be woken for the connections of a successor that has the same
    /// sockets.
    pub(crate) fn close_listeners(&self) {
        let give_up = Instant::now() + LEAVE_PATIENCE;
        while Arc::strong_count(&self.acceptors) > 1 && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.listeners.load().iter().flatten().for_each(|listener| listener.close());
    }

    /// The present configuration, for a call that does not last.
    pub(crate) fn configuration(&self) -> Guard<Arc<Configuration>> {
        self.configuration.load()
    }

    pub(crate) fn present(&self) -> &PresentConfiguration {
        &self.configuration
    }

    /// How long exchanges under way may take.
    fn drain_time(&self) -> Duration {
        let limits = self.configuration().limits;
        if self.has_successor() { limits.upgrade_drain } else { limits.drain }
    }

    /// When exchanges under way are ended. Never, while the server does not drain.
    pub(crate) fn give_up_ms(&self) -> u64 {
        self.give_up_ms.load(Ordering::Relaxed)
    }

    /// What is requested most often, for a successor.
    pub(crate) fn hot_paths(&self) -> Vec<HotPath> {
        let all = self.configuration().server.hot_paths(HOT_PATHS_MAX);
        all.into_iter().map(|(host, path)| HotPath { host, path: path.into() }).collect()
    }

    /// Does a job in this thread, which waits for the disk.
    pub(crate) fn run(&self, job: &Job) -> Outcome {
        let outcome = self.disk.run(job);
        self.configuration().server.cache_result(job, &outcome.done);
        self.note(job, &outcome);
        outcome
    }

    /// Logs failures of jobs that only an operator can repair.
    pub(crate) fn note(&self, job: &Job, outcome: &Outcome) {
        static OVER_BUDGET: RateLimit = RateLimit::every(Duration::from_secs(5));
        static DISK_ERROR: RateLimit = RateLimit::every(Duration::from_secs(5));
        if let Some(error) = outcome.error {
            let error = io::Error::from_raw_os_error(error);
            let path = self.disk.path_of(job);
            self.error_log.log_limited(&DISK_ERROR, format_args!("{}: {error}", path.escape_ascii()));
        }
        if let (Job::List(list), Done::Failed(Failure::OverBudget)) = (job, &outcome.done) {
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
        self.draining.load(Ordering::Acquire)
    }

    /// Sets what has started the server.
    pub(crate) fn set_manager(&self, manager: ServiceManager) {
        let _ = self.manager.set(manager);
    }

    /// What wants to know how the server does.
    pub(crate) fn manager(&self) -> ServiceManager {
        self.manager.get().cloned().unwrap_or_default()
    }

    /// What the server does, in a line.
    pub(crate) fn shown(&self) -> String {
        let (number, connections) = (self.configuration().server.number.number, self.permits.connections());
        let (requests, blocks) = (self.metrics.get(Count::Requests), self.metrics.get(Count::LoopBlocks));
        format!(
            "serves configuration {number}: {connections} connections, {requests} requests, {blocks} blocks of loops"
        )
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        if !self.has_successor() {
            self.manager().stopping();
        }
        let give_up_ms = server_us(Instant::now()) / 1000 + self.drain_time().as_millis() as u64;
        // A stop brings the end of a replaced server nearer, and never moves it away.
        self.give_up_ms.fetch_min(give_up_ms, Ordering::Relaxed);
        // A loop that sees this sees a successor and the time, too.
        self.draining.store(true, Ordering::Release);
        self.refuse_upgrades();
    }

    /// Nobody takes requests to upgrade any more.
    pub(crate) fn refuse_upgrades(&self) {
        self.upgrades.get().into_iter().for_each(|queue| queue.take().for_each(drop));
    }

    /// Begins to drain, or ends sooner what waits for one more request.
    pub(crate) fn drain_at_once(&self) {
        self.has_successor.store(false, Ordering::Relaxed);
        self.drain();
    }

    /// Another server accepts at the same sockets.
    pub(crate) fn succeeded(&self) {
        self.has_successor.store(true, Ordering::Relaxed);
        self.follow_logs();
    }

    /// Has the logs follow their paths. After a rotation a server that was replaced gets no signal.
    pub(crate) fn follow_logs(&self) {
        self.configuration().access_logs.follow();
        self.error_log.follow();
    }

    pub(crate) fn has_successor(&self) -> bool {
        self.has_successor.load(Ordering::Relaxed)
    }

    /// When connections come to their end. A client that is sending its next request to this server gets its answer here, for as long
    /// as the server drains.
    pub(crate) fn drain_state(&self) -> Drain {
        match (self.is_draining(), self.has_successor() && !self.has_given_up()) {
            (false, _) => Drain::No,
            (true, true) => Drain::AfterNextRequest,
            (true, false) => Drain::AtOnce,
        }
    }

    /// Waits until all connections are closed. When the time to drain has passed, has workers end the others, and waits for
    /// their last lines in the log.
    pub(crate) fn wait_for_connections(&self, worker_patience: Duration) {
        let now_ms = || server_us(Instant::now()) / 1000;
        let wait = |give_up_ms: &dyn Fn() -> u64| {
            while self.permits.are_taken() && now_ms() < give_up_ms() {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        // A signal may bring it nearer.
        wait(&|| self.give_up_ms());
        self.gave_up.store(true, Ordering::Relaxed);
        let worker_give_up_ms = now_ms() + worker_patience.as_millis() as u64;
        wait(&|| worker_give_up_ms);
    }

    /// Whether a worker shall end what is under way.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    /// Closes the logs. Logs the metrics before that, if `say` is set.
    pub(crate) fn close(&self, say: bool) {
        self.configuration().access_logs.clone().close();
        if say {
            self.metrics.log_blocks(&self.error_log);
            if self.verbose {
                self.log_metrics("stopped");
            }
            self.error_log.log(format_args!("stopped: {}", self.metrics.summary()));
        }
        self.error_log.clone().close();
    }

    /// Nobody needs to wait for signals any more.
    pub(crate) fn ends(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake_signals();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Wakes the thread that waits for signals.
    fn wake_signals(&self) {
        self.upgrades.get().into_iter().for_each(UpgradeQueue::wake);
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

    /// Has the logs opened again. The reply, if one is wanted, is every log that could not be.
    pub(crate) fn reopen_logs(&self, reply: Option<Reply>) {
        let reopening = Arc::new(Reopening { reply, failures: Mutex::default() });
        let done = || -> OnReopened {
            let reopening = Arc::clone(&reopening);
            Box::new(move |result| reopening.failures.lock().extend(result.err()))
        };
        self.configuration().access_logs.reopen(done);
        self.error_log.reopen(done());
    }

    /// Logs a panic, which ends one connection and no other.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) {
        static PANICS: RateLimit = RateLimit::every(Duration::from_secs(1));
        self.metrics.add(Count::Panics, 1);
        let what = text_of(panic);
        self.error_log.log_limited(&PANICS, format_args!("internal error, one connection closed: {what}"));
    }

    /// The body of a thread that the server cannot do without. If it fails or panics, the server logs that, and stops in order.
    pub(crate) fn run_vital(&self, name: &str, body: impl FnOnce() -> io::Result<()>) {
        let why = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                self.metrics.add(Count::Panics, 1);
                format!("internal error: {}", text_of(&*panic))
            }
        };
        let failure = format!("{name} has ended ({why}), so the server stops");
        self.error_log.log(format_args!("{failure}"));
        let _ = self.failure.set(failure);
        self.wake_signals();
    }

    /// Why the server has to stop.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

/// The logs are being opened again. The last one that is done replies.
struct Reopening {
    reply: Option<Reply>,
    failures: Mutex<Vec<String>>,
}

impl Drop for Reopening {
    fn drop(&mut self) {
        let failures = self.failures.get_mut();
        if let Some(reply) = self.reply.take() {
            reply.send(if failures.is_empty() { Ok(0) } else { Err(failures.join("\n")) });
        }
    }
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
