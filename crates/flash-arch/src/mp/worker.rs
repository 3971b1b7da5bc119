//! A worker process of mp, and where it takes connections from: its listeners, and the connections that the
//! [parent](super::parking) passes on.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::job::{Job, Outcome};
use flash_core::{Connection, Drain, Evictable, IdleState};
use flash_observe::metrics::MetricsMemory;
use flash_os::poller::{Interest, Poller};
use flash_os::socket::Waits;
use flash_os::waker::Waker;
use flash_process::ipc::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::parking::{MESSAGE_BYTES, SHORT, WorkerEnds};
use super::reports::{OwnReport, Reports};
use super::scoreboard::Scoreboard;
use crate::admin::gather;
use crate::admin::snapshot::RootFault;
use crate::blocking::{Arrival, Blocking, ServedClient, Source};
use crate::connections::gates::ProcessGates;
use crate::connections::listener::Listener;
use crate::connections::transport::Transport;
use crate::limits::Limits;
use crate::server_state::ServerState;
use crate::service;
use crate::service::reload::Configurator;
use crate::service::signals::Signals;
use crate::service::upgrade::Upgrades;

/// What all workers of a generation have in common.
pub(super) struct Workers {
    /// The number of their configuration.
    pub(super) generation: u64,
    /// When new requests began to get it.
    pub(super) since_unix_ms: u64,
    /// Where they count.
    pub(super) metrics_memory: Arc<MetricsMemory>,
    /// The first of the rows where they count programs and certificates, each by its number. `None` if other generations have all
    /// rows.
    pub(super) rows: Option<usize>,
    /// Those of a lower number stay when they are idle.
    pub(super) min: usize,
    pub(super) limits: Limits,
    /// The parent drops its own when the generation is retired, so that later workers do not get them.
    pub(super) listeners: RefCell<Vec<Arc<Listener>>>,
    pub(super) scoreboard: Scoreboard,
    /// Where they tell administrators what they do.
    pub(super) reports: Reports,
    pub(super) login_gates: ProcessGates,
    pub(super) handshake_gates: ProcessGates,
    pub(super) ends: Rc<WorkerEnds>,
    /// Wakes all workers when the generation is retired.
    pub(super) waker: Waker,
    /// Another server accepts. The workers have no listeners, and only end the connections that there are.
    pub(super) has_successor: bool,
}

impl Workers {
    /// Where the worker of this number counts programs and certificates.
    pub(super) fn row(&self, number: usize) -> usize {
        self.rows.map_or(usize::MAX, |first| first + number)
    }

    /// Has the workers end, each after its connection.
    pub(super) fn retire(&self) {
        self.scoreboard.retire_all();
        self.waker.wake();
    }
}

/// How long a worker beyond the least number waits for a connection before it retires.
const RETIRE_AFTER: Duration = Duration::from_secs(10);
const FAULTS_EVERY: Duration = Duration::from_secs(1);
const FAULTS_STACK_BYTES: usize = 128 << 10;
/// The token of connections that the parent passes on. Listeners have their numbers.
const READY: u64 = u64::MAX;
/// The token of the generation's waker.
const RETIRED: u64 = u64::MAX - 1;
/// The token of the event that the process shall stop.
const STOPPED: u64 = u64::MAX - 2;

/// The body of a worker process.
pub(super) fn work(number: usize, workers: &Workers, configurator: &dyn Configurator) -> io::Result<()> {
    if let Ok(name) = std::ffi::CString::new(format!("worker-{number}")) {
        flash_os::process::set_name(&name);
    }
    let mut signals = Signals::new()?.or_end_of(workers.ends.to_parent.try_clone()?);
    workers.metrics_memory.enter(workers.row(number));
    let report = workers.reports.enter(number);
    let parts =
        configurator.parts(number).map_err(|error| io::Error::other(format!("cannot start: {error}")))?;
    let shared = ServerState::new(parts, workers.limits);
    let _ = shared.slowest.tell.set(Box::new(report.tells_slowest()));
    if workers.has_successor {
        shared.succeeded();
        shared.drain();
    }
    // The process before this one may have been killed while it served.
    let left = workers
        .scoreboard
        .held(number)
        .and_then(|place| shared.configuration().server.settings.clients.counted(place));
    workers.scoreboard.holds(number, None);
    drop(left);
    service::start_threads(&shared, number == 0, Some(&workers.login_gates))?;
    start_watching(&shared, report.tells_faults(), workers.waker.as_fd().try_clone_to_owned()?)?;
    if number == 0 && workers.generation > 1 && !workers.has_successor {
        let generation = workers.generation;
        shared.error_log.log(format_args!("configuration {generation} serves from now on"));
    }
    let listening = Arc::clone(&shared);
    let stop = Arc::new(Waker::new()?);
    let (stopping, listeners) = (Arc::clone(&stop), workers.listeners.borrow().clone());
    thread::Builder::new().name("signals".into()).spawn(move || {
        // The parent watches the needed processes.
        let _ = signals.wait_for_stop(&listening, &[], &mut Upgrades::default(), None);
        listening.drain_at_once();
        stopping.wake();
        listeners.iter().for_each(|listener| listener.close());
        // The main thread ends the process when its connection has ended.
        listening.wait_for_connections(Duration::ZERO);
    })?;
    let source = Connections::new(number, workers, Arc::clone(&shared), (stop, &report))?;
    Blocking::new(Arc::clone(&shared), source).run();
    workers.metrics_memory.leave();
    report.leave();
    shared.close(false);
    Ok(())
}

/// Tells administrators what is wrong, for as long as the process serves. Once its generation is retired, the logs follow their paths:
/// the server may have been replaced, and then nobody tells this process of a rotation.
fn start_watching(
    shared: &Arc<ServerState>,
    tell: impl Fn((Vec<RootFault>, bool)) + Send + 'static,
    retired: OwnedFd,
) -> io::Result<()> {
    let state = Arc::downgrade(shared);
    let life = move || {
        let mut is_retired = false;
        while let Some(shared) = state.upgrade() {
            tell(gather::faults(&shared));
            drop(shared);
            if is_retired {
                thread::sleep(FAULTS_EVERY);
            } else if is_readable_within(&retired, FAULTS_EVERY) {
                is_retired = true;
                state.upgrade().iter().for_each(|shared| shared.follow_logs());
            }
        }
    };
    thread::Builder::new().name("faults".into()).stack_size(FAULTS_STACK_BYTES).spawn(life).map(drop)
}

fn is_readable_within(fd: &OwnedFd, wait: Duration) -> bool {
    let timeout = Timespec::try_from(wait).ok();
    poll(&mut [PollFd::new(fd, PollFlags::IN)], timeout.as_ref()).is_ok_and(|count| count > 0)
}

struct Connections<'a> {
    number: usize,
    workers: &'a Workers,
    listeners: Vec<Arc<Listener>>,
    shared: Arc<ServerState>,
    poller: Poller,
    /// Woken once this process shall stop.
    _stop: Arc<Waker>,
    /// Where this worker tells what it does.
    report: &'a OwnReport,
    is_idle: bool,
    /// It waits for its client in vain, and others know.
    is_in_vain: bool,
}

impl<'a> Connections<'a> {
    fn new(
        number: usize,
        workers: &'a Workers,
        shared: Arc<ServerState>,
        (stop, report): (Arc<Waker>, &'a OwnReport),
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        // Exclusive: one connection wakes one worker. It is the first in the kernel's list, so later workers stay idle.
        let one = Interest::INPUT.exclusive();
        let listeners = workers.listeners.borrow().clone();
        for (listener, token) in listeners.iter().zip(0..) {
            poller.add(listener, token, one)?;
        }
        // Not exclusive: it wakes all.
        poller.add(&workers.waker, RETIRED, Interest::INPUT)?;
        poller.add(&*stop, STOPPED, Interest::INPUT)?;
        poller.add(&workers.ends.ready, READY, one)?;
        Ok(Self {
            number,
            workers,
            listeners,
            shared,
            poller,
            _stop: stop,
            report,
            is_idle: false,
            is_in_vain: false,
        })
    }

    /// Waits for an event. Returns its token, or `None` after the timeout.
    fn wait(&self, timeout: Option<Duration>) -> Result<Option<u64>, Errno> {
        Ok(self.poller.wait_for_one(timeout)?.map(|event| event.token))
    }

    /// Whether a connection waits for a worker.
    fn has_arrival(&self) -> bool {
        let listeners = self.listeners.iter().map(|listener| listener.as_fd());
        let all = listeners.chain([self.workers.ends.ready.as_fd()]);
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    /// Takes a connection that the parent has passed on, unless another worker was faster.
    fn take_ready(&self) -> Option<Box<ServedClient>> {
        let mut buffer = [0; MESSAGE_BYTES];
        let Ok(Received::Message(message)) = ipc::try_receive(&self.workers.ends.ready, &mut buffer) else {
            return None;
        };
        let state = IdleState::of(&message.bytes)?;
        // Without its socket it ends here.
        let connection = Connection::from_idle(state, &self.shared.configuration().server.settings);
        let socket = message.descriptors.into_iter().next()?;
        let connection = connection?;
        // This process serves nothing else, so there is a permit.
        let permit = self.shared.permits.take()?;
        Some(Box::new(ServedClient { connection, transport: Transport::Plain, socket, permit }))
    }

    /// Begins to serve a connection. Tells the parent if no worker is left for the next one.
    fn begin(&mut self) {
        self.is_idle = false;
        self.report.busy(true);
        if self.workers.scoreboard.begin(self.number) {
            // If there is no room, others have told the parent.
            let _ = ipc::try_send(&self.workers.ends.to_parent, SHORT, &[]);
        }
    }
}

impl Source for Connections<'_> {
    fn next(&mut self) -> Option<Arrival> {
        let timeout = (self.number >= self.workers.min).then_some(RETIRE_AFTER);
        while self.shared.drain_state() != Drain::AtOnce {
            if self.is_retired() {
                self.workers.scoreboard.absent(self.number);
                return None;
            }
            if !mem::replace(&mut self.is_idle, true) {
                self.report.busy(false);
                self.workers.scoreboard.idle(self.number);
            }
            let arrival = match self.wait(timeout) {
                Ok(Some(READY)) => match self.take_ready() {
                    Some(client) => Arrival::Parked(client),
                    None => continue,
                },
                Ok(Some(RETIRED | STOPPED)) => continue,
                Ok(Some(number)) => {
                    match self.listeners[number as usize].accept(Waits::Yes) {
                        Ok((socket, transport)) => Arrival::New(socket, transport),
                        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => continue,
                        // The listener is shut.
                        Err(Errno::INVAL) => return None,
                        Err(error) => Arrival::Failed(error),
                    }
                }
                Ok(None) if self.workers.scoreboard.retire(self.number) => return None,
                Ok(None) | Err(_) => continue,
            };
            self.begin();
            return Some(arrival);
        }
        None
    }

    fn may_wait(&self) -> bool {
        !self.workers.scoreboard.is_short() && !self.is_retired()
    }

    fn run(&self, shared: &ServerState, job: &Job) -> Outcome {
        let usage = self.report.begin_job(job, &shared.disk);
        let outcome = shared.run(job);
        self.report.end_job(usage, job, &shared.disk);
        outcome
    }

    fn is_retired(&self) -> bool {
        self.workers.scoreboard.are_retired()
    }

    fn retirement(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_retired()).then(|| self.workers.waker.as_fd())
    }

    /// However many wait before it, their steps end soon. So patience has no end here.
    fn take_step(&self, _patience: Duration, step: &mut dyn FnMut()) -> bool {
        let _gate = self.workers.handshake_gates.pass();
        step();
        true
    }

    fn begin_login(&mut self) -> bool {
        self.workers.scoreboard.begin_login(self.number)
    }

    fn end_login(&mut self) {
        self.workers.scoreboard.end_login(self.number);
    }

    fn awaits_request(&mut self, awaits: bool) {
        self.workers.scoreboard.awaits_request(self.number, awaits);
    }

    /// Only a connection between two requests goes to another process. The keys of TLS stay in this one.
    fn parks(&self, connection: &Connection, transport: &Transport) -> bool {
        !transport.is_tls() && connection.idle_state().is_some()
    }

    fn park(&mut self, client: Box<ServedClient>) {
        if let Some(state) = client.connection.idle_state() {
            // If it fails, the parent is gone, and the connection is closed.
            if ipc::send(&self.workers.ends.to_parent, state.bytes(), &[client.socket.as_fd()]).is_ok() {
                client.connection.pass_on();
            }
        }
    }

    fn holds(&mut self, counted_at: Option<u32>) {
        self.workers.scoreboard.holds(self.number, counted_at);
    }

    /// The parent closes idle connections beyond their limit.
    fn take_victim(&mut self) -> Option<Box<ServedClient>> {
        None
    }

    fn lacks_places(&self) -> bool {
        self.workers.scoreboard.is_short() && !self.is_retired() && self.shared.drain_state() == Drain::No
    }

    fn gives_way(&mut self, evictable: Option<Evictable>) -> bool {
        self.is_in_vain = evictable.is_some();
        self.workers.scoreboard.is_first_to_go(self.number, evictable) && self.has_arrival()
    }

    fn goes_on(&mut self) {
        if mem::take(&mut self.is_in_vain) {
            self.workers.scoreboard.is_first_to_go(self.number, None);
        }
    }

    /// A process has no other connection.
    fn take_oldest_handshake(&mut self) -> Option<Box<ServedClient>> {
        None
    }
}
