//! Applications that Flash starts itself: FastCGI programs, as many processes as are needed up to a limit.
//!
//! Each process has a listening socket of its own ([`private_address`]), because each serves one request at a time. So the pool
//! knows which request each process serves, which processes are idle and can end, and how many requests each has served. It
//! also knows which process to end if no client needs a response any more. With one socket for all, the kernel would choose.
//! Then an idle connection to one process would say nothing about the others.
//!
//! A request gets an idle process at once. The [background thread](crate::background) does all work that takes time, such as
//! starting a process. It calls the pool.

mod draining;
mod event;
mod observer;
mod private_address;
mod state;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use flash_cgi::Variables;
use flash_core::record::counters::ProgramCount;
use flash_core::record::program_times::ProgramTimes;
use flash_core::upstream::{
    Lease, OnOpened, Open, OpenError, Opened, ReleaseMode, Upstream, UpstreamProtocol,
};
use flash_process::{
    ExitStatus, LineLimiter, ProcessMonitor, ProgramRef, Reporter, SpawnRequest, Started, Stdio,
};
use rustix::io::Errno;
use rustix::net::Shutdown;

use self::draining::Draining;
use self::event::Event;
use self::observer::PoolObserver;
use self::private_address::PrivateAddress;
use self::state::{ExitReason, Phase, PoolState, Process, Waiting};
use crate::background::{Command, CommandChannel, FullSocket, Maintained};
use crate::circuit_breaker::CircuitBreaker;
use crate::connector::Connector;
use crate::counts::{Counted, ProgramCounter, is_failure};
use crate::idle_connections::is_reusable;
use crate::server::{Shared, abort};
use crate::settings::Application;

#[derive(Debug)]
pub(crate) struct AppPool {
    application: Application,
    queue_max: usize,
    queue_wait: Duration,
    /// Upstreams hold it; the monitor would not end otherwise.
    monitor: Weak<ProcessMonitor>,
    /// What connects in place of a server in its sandbox: that of the last configuration with this application.
    connector: ArcSwapOption<Connector>,
    background: Arc<CommandChannel>,
    reporter: Arc<Reporter>,
    breaker: CircuitBreaker,
    state: Mutex<PoolState>,
    counter: Arc<dyn ProgramCounter>,
    _processes_max: Counted,
}

/// How processes end that are told to.
const SIGTERM: i32 = rustix::process::Signal::TERM.as_raw();
const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

type Answers = Vec<(OnOpened, Opened)>;

/// How long a process may take to serve its first request, before another one is tried, when the last ones failed.
const PROBE: Duration = Duration::from_secs(5);

impl AppPool {
    pub(crate) fn new(
        application: Application,
        monitor: Weak<ProcessMonitor>,
        counter: &Arc<dyn ProgramCounter>,
        shared: &Shared<'_>,
    ) -> Self {
        let Shared { settings, background, connector, reporter, .. } = shared;
        let processes_max = Counted::many(counter, ProgramCount::ProcessesMax, application.processes_max);
        Self {
            application,
            queue_max: settings.queue_max,
            queue_wait: settings.queue_wait,
            monitor,
            connector: ArcSwapOption::new(connector.cloned()),
            background: Arc::clone(background),
            reporter: Arc::clone(reporter),
            breaker: CircuitBreaker::new(PROBE, Arc::clone(counter), Instant::now()),
            state: Mutex::default(),
            counter: Arc::clone(counter),
            _processes_max: processes_max,
        }
    }

    /// From now on this one connects.
    pub(crate) fn use_connector(&self, connector: Option<&Arc<Connector>>) {
        self.connector.store(connector.cloned());
    }

    pub(crate) fn begin(self: &Arc<Self>, begin: Open, reply: OnOpened) -> Option<Opened> {
        let Open { name, again, .. } = begin;
        match self.state.try_lock() {
            Ok(mut state) => match self.lend(&mut state, &name, None, again) {
                Some(begun) => Some(begun),
                None => self.wait(&mut state, name, reply).err().map(|(_, begun)| begun),
            },
            // Another thread has the lock.
            Err(_) => {
                self.send(Event::Open { name, again, reply });
                None
            }
        }
    }

    /// Handles an event, or has the background thread handle it. Never blocks.
    fn tell(self: &Arc<Self>, event: Event) {
        match self.state.try_lock() {
            Ok(state) => {
                if self.take(state, event) {
                    self.send(Event::Wanted);
                }
            }
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
                self.send(event);
            }
        }
    }

    /// Has the background thread handle an event.
    fn send(self: &Arc<Self>, event: Event) {
        let pool = Arc::clone(self);
        self.background.send(Command::Run(Box::new(move || pool.handle(event))));
    }

    /// Handles an event, on the background thread.
    fn handle(self: &Arc<Self>, event: Event) {
        if self.take(self.lock(), event) {
            self.start();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Every change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leases an idle process: the first, so that the others stay idle and end when there is less to do.
    fn lend(
        self: &Arc<Self>,
        state: &mut PoolState,
        name: &Arc<str>,
        waits_since: Option<Instant>,
        again: bool,
    ) -> Option<Opened> {
        loop {
            let is_idle = |process: &Process| matches!(process.phase, Phase::Idle { .. });
            let at = state.processes.iter().position(is_idle)?;
            let process = &mut state.processes[at];
            let kept = match std::mem::replace(&mut process.phase, Phase::Busy) {
                Phase::Idle { stream, is_new, .. } => stream.map(|stream| (stream, !is_new)),
                Phase::Starting | Phase::Connecting | Phase::Busy | Phase::Ending => None,
            };
            let kept = kept.filter(|(stream, used)| !(again && *used) && is_reusable(stream));
            let is_new = |stream| (stream, false);
            let connect = || {
                process
                    .address
                    .connect_now(self.connector.load().as_deref())
                    .map(|attempt| attempt.done().map(is_new))
            };
            let (stream, used) = match kept.map(Ok).or_else(connect) {
                Some(Ok(connected)) => connected,
                // It listens no more. Another one may.
                Some(Err(_)) => {
                    process.end();
                    continue;
                }
                None => {
                    process.phase = Phase::Connecting;
                    let number = process.number;
                    self.send(Event::Unconnected { number });
                    continue;
                }
            };
            let queued = waits_since.map(|since| process.queued(since, Instant::now())).unwrap_or_default();
            let number = process.number;
            let lease = Box::new(ProcessLease::new(Arc::clone(self), number, Arc::clone(name)));
            return Some(Opened::Running(
                stream,
                Upstream { used, queued, ..Upstream::new(UpstreamProtocol::FastCgi, lease) },
            ));
        }
    }

    /// Queues a request for a process.
    fn wait(
        self: &Arc<Self>,
        state: &mut PoolState,
        name: Arc<str>,
        reply: OnOpened,
    ) -> Result<(), (OnOpened, Opened)> {
        let now = Instant::now();
        let is_hopeless = state.processes.is_empty() && self.breaker.is_open(now);
        if is_hopeless || state.waiting.len() >= self.queue_max {
            self.counter.add(ProgramCount::Refused, 1);
            return Err((reply, Opened::Failed(OpenError::Busy)));
        }
        let counted = Counted::one(&self.counter, ProgramCount::Waiting);
        state.waiting.push_back(Waiting {
            name,
            since: now,
            give_up_at: now + self.queue_wait,
            reply,
            _counted: counted,
        });
        if state.processes.len() < self.application.processes_max {
            self.send(Event::Wanted);
        }
        self.background.tick();
        Ok(())
    }

    /// Returns whether processes should be started.
    fn take(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>, event: Event) -> bool {
        let mut answers = Answers::new();
        match event {
            Event::Open { name, again, reply } => match self.lend(&mut state, &name, None, again) {
                Some(begun) => answers.push((reply, begun)),
                None => answers.extend(self.wait(&mut state, name, reply).err()),
            },
            Event::Wanted => {}
            Event::Started { number, result } => self.started(&mut state, number, result, &mut answers),
            Event::Free { number, stream } => self.free(&mut state, number, stream),
            Event::Unconnected { number } => self.connect(&mut state, number, Instant::now() + PROBE),
            Event::Connected { number, result } => match (state.find(number), result) {
                (Some(process), Ok(stream)) => process.rest(Some(stream), true),
                // No fault of the process.
                (Some(process), Err(Errno::AGAIN)) if self.connector_is_gone() => process.rest(None, true),
                (Some(process), Err(_)) => process.end(),
                (None, _) => {}
            },
            Event::Unused { number } => {
                if let Some(process) = state.find(number) {
                    process.rest(None, true);
                }
            }
            Event::Useless { number } => {
                if let Some(process) = state.find(number) {
                    process.end();
                }
            }
            Event::Ended { number, how } => self.ended(&mut state, number, how),
        }
        while let Some(Waiting { name, since, .. }) = state.waiting.front() {
            let (name, since) = (Arc::clone(name), *since);
            let Some(begun) = self.lend(&mut state, &name, Some(since), false) else { break };
            answers.extend(state.waiting.pop_front().map(|waiting| (waiting.reply, begun)));
        }
        let starting = state.starting();
        let is_short =
            starting < state.waiting.len() && state.processes.len() < self.application.processes_max;
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        is_short
    }

    /// Has the connector connect to a process, on the background thread.
    fn connect(self: &Arc<Self>, state: &mut PoolState, number: u64, give_up_at: Instant) {
        let Some(process) = state.find(number) else { return };
        let pool = Arc::clone(self);
        // Not here, where the state is locked.
        let then = Box::new(move |result| match result {
            Err(Errno::AGAIN) if Instant::now() < give_up_at => {
                let background = Arc::clone(&pool.background);
                background.send(Command::Retry(Box::new(Unconnected { pool, number, give_up_at })));
            }
            result => pool.send(Event::Connected { number, result }),
        });
        let attempt = process.address.connect(self.connector.load().as_deref(), &self.reporter);
        attempt.wait(give_up_at, &self.background, then);
    }

    fn connector_is_gone(&self) -> bool {
        self.connector.load().as_ref().is_some_and(|connector| connector.is_gone())
    }

    fn started(
        &self,
        state: &mut PoolState,
        number: u64,
        result: Result<Started, OpenError>,
        answers: &mut Answers,
    ) {
        match (state.find(number), result) {
            (Some(process), Ok(Started { handle, .. })) => {
                self.counter.add(ProgramCount::Started, 1);
                process.handle = Some(handle);
                process.rest(None, true);
            }
            // It is ended as it is dropped.
            (None, _) => {}
            (Some(_), Err(why)) => {
                state.remove(number);
                self.counter.add(ProgramCount::Failed, 1);
                self.breaker.failed(Instant::now());
                answers.extend(self.refuse_first(state, why));
            }
        }
    }

    fn free(&self, state: &mut PoolState, number: u64, stream: Option<OwnedFd>) {
        let Some(process) = state.find(number) else { return };
        process.served += 1;
        process.rest(stream, false);
        if process.served >= self.application.requests_max {
            process.end();
        }
        self.breaker.succeeded();
        self.background.tick();
    }

    fn ended(&self, state: &mut PoolState, number: u64, how: ExitStatus) {
        let Some(process) = state.remove(number) else { return };
        let of_its_own = match process.phase {
            Phase::Ending => !matches!(how, ExitStatus::Signal(SIGTERM | SIGKILL) | ExitStatus::Unknown),
            Phase::Starting | Phase::Connecting | Phase::Idle { .. } | Phase::Busy => true,
        };
        // A process that was told to end may do so with any code.
        self.counter.add(ProgramCount::Failed, (of_its_own && is_failure(how)).into());
        let name = &self.application.name;
        match (process.served, how) {
            (0, how) if of_its_own => {
                let pause = self.breaker.failed(Instant::now());
                self.reporter.log(format_args!(
                    "{name}: a process {} before it had served a request; not started again for {pause:?}",
                    ExitReason(how)
                ));
            }
            // Programs may have enough of it, as php-cgi has.
            (_, how) if of_its_own && how != ExitStatus::Code(0) => {
                self.reporter.log(format_args!("{name}: a process {}", ExitReason(how)));
            }
            _ => {}
        }
    }

    /// Starts as many processes as are waited for and allowed.
    fn start(self: &Arc<Self>) {
        let mut state = self.lock();
        let mut requests = Vec::new();
        let mut answers = Answers::new();
        while state.starting() < state.waiting.len()
            && state.processes.len() < self.application.processes_max
            && self.breaker.allow(Instant::now())
        {
            match self.add_process(&mut state) {
                Ok(request) => requests.push(request),
                Err(error) => {
                    self.reporter.log(format_args!("{}: no socket for it: {error}", self.application.name));
                    answers.extend(self.refuse_first(&mut state, OpenError::Busy));
                }
            }
        }
        if state.processes.is_empty() {
            // The circuit breaker is open, and to wait would be in vain.
            while let Some(answer) = self.refuse_first(&mut state, OpenError::Busy) {
                answers.push(answer);
            }
        }
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        if let Some(monitor) = self.monitor.upgrade() {
            requests.into_iter().for_each(|request| monitor.spawn(request));
        }
    }

    /// Refuses the request that has waited longest.
    fn refuse_first(&self, state: &mut PoolState, why: OpenError) -> Option<(OnOpened, Opened)> {
        let refused = state.refuse_first(why)?;
        self.counter.add(ProgramCount::Refused, 1);
        Some(refused)
    }

    fn add_process(self: &Arc<Self>, state: &mut PoolState) -> std::io::Result<SpawnRequest> {
        let (address, listener) = PrivateAddress::open(self.connector.load().as_deref(), &self.reporter)?;
        state.numbers += 1;
        let number = state.numbers;
        let counted = Counted::one(&self.counter, ProgramCount::Processes);
        let (born, phase) = (Instant::now(), Phase::Starting);
        let process = Process { number, address, handle: None, served: 0, born, phase, _counted: counted };
        state.processes.push(process);
        let mut variables = Variables::default();
        // php-cgi would leave after 500 requests: the pool decides when it is replaced.
        variables.push(b"PHP_FCGI_MAX_REQUESTS", b"0");
        // The monitor holds this, and the pool may go before. The monitor's thread handles no event: to start another process it would
        // ask itself.
        let pool = Arc::downgrade(self);
        let tell = move |event| {
            if let Some(pool) = pool.upgrade() {
                pool.send(event);
            }
        };
        Ok(SpawnRequest {
            what: ProgramRef::Command { command: self.application.command },
            variables: Arc::new(variables),
            stdio: Stdio::Listener(listener),
            name: self.application.name.as_str().into(),
            observer: Box::new(PoolObserver { tell, number }),
        })
    }
}

impl Maintained for AppPool {
    /// Ends processes that have been idle for long, and rejects requests that have waited for long. Returns whether any
    /// are left.
    fn expire_idle(self: Arc<Self>, now: Instant) -> bool {
        let mut state = self.lock();
        for process in &mut state.processes {
            if let Phase::Idle { since, .. } = process.phase
                && now.saturating_duration_since(since) >= self.application.idle
            {
                process.end();
            }
        }
        let mut answers = Answers::new();
        while state.waiting.front().is_some_and(|waiting| waiting.give_up_at <= now) {
            answers.extend(self.refuse_first(&mut state, OpenError::Busy));
        }
        let is_needed = !state.processes.is_empty() || !state.waiting.is_empty();
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        // The circuit breaker may allow a start by now.
        self.handle(Event::Wanted);
        is_needed
    }

    /// No request can come any more.
    fn close(&self) {
        let state = std::mem::take(&mut *self.lock());
        let busy = |waiting: Waiting| (waiting.reply)(Opened::Failed(OpenError::Busy));
        state.waiting.into_iter().for_each(busy);
    }
}

/// A process to which the connector could not connect: it was killed, or as many connections wait there as may.
struct Unconnected {
    pool: Arc<AppPool>,
    number: u64,
    give_up_at: Instant,
}

impl FullSocket for Unconnected {
    fn name(&self) -> &str {
        &self.pool.application.name
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn retry(self: Box<Self>, _now: Instant) -> Option<Box<dyn FullSocket>> {
        let Self { pool, number, give_up_at } = *self;
        pool.connect(&mut pool.lock(), number, give_up_at);
        None
    }

    /// Requests that wait for it are refused by the pool.
    fn close(self: Box<Self>) {}
}

/// The lease of a process for one request. Dropping it ends the process.
struct ProcessLease {
    pool: Arc<AppPool>,
    number: u64,
    name: Arc<str>,
    lines: LineLimiter,
    has_begun: bool,
    is_over: bool,
    _counted: Counted,
}

impl ProcessLease {
    fn new(pool: Arc<AppPool>, number: u64, name: Arc<str>) -> Self {
        let (lines, counted) = (LineLimiter::default(), Counted::one(&pool.counter, ProgramCount::Busy));
        Self { pool, number, name, lines, has_begun: false, is_over: false, _counted: counted }
    }
}

impl Lease for ProcessLease {
    fn begins(&mut self) {
        self.has_begun = true;
    }

    fn took(&mut self, times: &ProgramTimes) {
        self.pool.counter.took(times);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.lines.push(bytes, |line| self.pool.reporter.stderr_line(&self.name, line));
    }

    fn finish(mut self: Box<Self>, stream: OwnedFd, how: ReleaseMode) {
        self.is_over = true;
        let number = self.number;
        match how {
            ReleaseMode::Reusable => self.pool.tell(Event::Free { number, stream: Some(stream) }),
            ReleaseMode::Ended => {
                drop(stream);
                self.pool.tell(Event::Free { number, stream: None });
            }
            ReleaseMode::Aborted => {
                abort(&stream);
                // It is served to its end otherwise, in the hope of another request.
                let _ = rustix::net::shutdown(&stream, Shutdown::Write);
                let pool = Arc::clone(&self.pool);
                let on_end = move |is_complete| {
                    pool.handle(match is_complete {
                        true => Event::Free { number, stream: None },
                        false => Event::Useless { number },
                    });
                };
                let draining = Box::new(Draining::new(stream, Box::new(on_end)));
                self.pool.background.send(Command::Wait(draining));
            }
        }
    }
}

impl Drop for ProcessLease {
    fn drop(&mut self) {
        self.lines.end(|line| self.pool.reporter.stderr_line(&self.name, line));
        let number = self.number;
        match (self.is_over, self.has_begun) {
            (true, _) => {}
            (false, true) => self.pool.tell(Event::Useless { number }),
            (false, false) => self.pool.tell(Event::Unused { number }),
        }
    }
}

impl fmt::Debug for ProcessLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessLease")
            .field("name", &self.name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
