//! Applications that Flash starts itself: FastCGI programs, as many processes as are needed up to a limit.
//!
//! Each process has a listening socket of its own ([`door`]), because each serves one request at a time: so it is known
//! who serves what, which of them are idle and can go, how many requests each has had, and whom to end when an answer is
//! not wanted any more. With one socket for all the kernel would decide, and a connection that is kept to one process
//! would say nothing about the others.
//!
//! Whoever asks for a process that is idle gets it at once, without help. All that takes time, starting one for
//! instance, is done by the [`clerk`](crate::clerk), on whose thread [`Pool::hear`] is called.

mod door;
mod lease;

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_core::program::{Backend, Begin, Begun, Refusal, Reply, Talk};

use self::door::Door;
pub(crate) use self::lease::Winding;
use self::lease::{Loan, Staff};
use crate::clerk::{Letter, Mail};
use crate::gate::Gate;
use crate::keeper::{Keeper, Order, Running, Started, Stdio};
use crate::programs::{Application, Hears, Settings};
use crate::shelf::is_quiet;
use crate::wire::{Ended, What};

#[derive(Debug)]
pub(crate) struct Pool {
    application: Application,
    queue_max: usize,
    queue_wait: Duration,
    /// Programs hold it; it would not end otherwise.
    keeper: Weak<Keeper>,
    clerk: Arc<Mail>,
    hears: Hears,
    gate: Gate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    processes: Vec<Process>,
    waiting: VecDeque<Waiting>,
    /// The number of the last process.
    numbers: u64,
}

#[derive(Debug)]
struct Process {
    number: u64,
    door: Door,
    /// Dropping it ends the process. `None` as long as it is not known to run, and when it has been ended.
    running: Option<Running>,
    served: usize,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Starting,
    Idle {
        /// It may have closed the last one, as not all programs keep connections.
        stream: Option<OwnedFd>,
        since: Instant,
    },
    /// It serves, or has still to notice that nobody listens.
    Busy,
    /// It has been told to, or has closed its socket. Until it has, it is one of those that there may be.
    Ending,
}

/// A request for which there is no process yet.
struct Waiting {
    name: Arc<str>,
    give_up_at: Instant,
    reply: Reply,
}

/// What happens to a pool. Processes that it does not know any more are of no concern.
pub(crate) enum Event {
    Begin {
        name: Arc<str>,
        again: bool,
        reply: Reply,
    },
    /// Somebody waits who could be served.
    Wanted,
    Started {
        number: u64,
        result: Result<Started, Refusal>,
    },
    /// A process has served, and may serve again, over the same connection if there is one.
    Free {
        number: u64,
        stream: Option<OwnedFd>,
    },
    /// A process was lent to somebody who had left.
    Unused {
        number: u64,
    },
    /// A process is of no more use.
    Useless {
        number: u64,
    },
    Ended {
        number: u64,
        how: Ended,
    },
}

/// How processes end that are told to.
const SIGTERM: i32 = rustix::process::Signal::TERM.as_raw();
const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

type Answers = Vec<(Reply, Begun)>;

/// How long a process may take to serve its first request, before another one is tried, when the last ones failed.
const PROBE: Duration = Duration::from_secs(5);

impl Pool {
    pub(crate) fn new(
        application: Application,
        settings: &Settings,
        keeper: Weak<Keeper>,
        clerk: Arc<Mail>,
        hears: Hears,
    ) -> Self {
        Self {
            application,
            queue_max: settings.queue_max,
            queue_wait: settings.queue_wait,
            keeper,
            clerk,
            hears,
            gate: Gate::new(PROBE, Instant::now()),
            state: Mutex::default(),
        }
    }

    pub(crate) fn begin(self: &Arc<Self>, begin: Begin, reply: Reply) -> Option<Begun> {
        let Begin { name, again, .. } = begin;
        match self.state.try_lock() {
            Ok(mut state) => match self.lend(&mut state, &name, again) {
                Some(begun) => Some(begun),
                None => self.wait(&mut state, name, reply).err().map(|(_, begun)| begun),
            },
            // Another thread is in there at this moment.
            Err(_) => {
                self.clerk.put(Letter::Pool(Arc::clone(self), Event::Begin { name, again, reply }));
                None
            }
        }
    }

    /// Something has happened. Never waits.
    fn tell(self: &Arc<Self>, event: Event) {
        match self.state.try_lock() {
            Ok(state) => {
                if self.take(state, event) {
                    self.clerk.put(Letter::Pool(Arc::clone(self), Event::Wanted));
                }
            }
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => {
                self.clerk.put(Letter::Pool(Arc::clone(self), event));
            }
        }
    }

    /// Something has happened. For the clerk.
    pub(crate) fn hear(self: &Arc<Self>, event: Event) {
        if self.take(self.lock(), event) {
            self.start();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out an idle process: the first, so that the others grow old when there is less to do.
    fn lend(self: &Arc<Self>, state: &mut State, name: &Arc<str>, again: bool) -> Option<Begun> {
        loop {
            let is_idle = |process: &Process| matches!(process.work, Work::Idle { .. });
            let at = state.processes.iter().position(is_idle)?;
            let process = &mut state.processes[at];
            let Process { number, door, work, .. } = process;
            let kept = match std::mem::replace(work, Work::Busy) {
                Work::Idle { stream, .. } => stream.filter(|stream| !again && is_quiet(stream)),
                Work::Starting | Work::Busy | Work::Ending => None,
            };
            let used = kept.is_some();
            let Some(stream) = kept.or_else(|| door.connect().ok()) else {
                // It listens no more. Another one may.
                process.end();
                continue;
            };
            let lease = Box::new(Loan::new(Arc::clone(self), *number, Arc::clone(name)));
            return Some(Begun::Running(stream, Backend { talk: Talk::FastCgi, lease, used }));
        }
    }

    /// Lets a request wait for a process.
    fn wait(self: &Arc<Self>, state: &mut State, name: Arc<str>, reply: Reply) -> Result<(), (Reply, Begun)> {
        let now = Instant::now();
        let is_hopeless = state.processes.is_empty() && self.gate.is_closed(now);
        if is_hopeless || state.waiting.len() >= self.queue_max {
            return Err((reply, Begun::Failed(Refusal::Busy)));
        }
        state.waiting.push_back(Waiting { name, give_up_at: now + self.queue_wait, reply });
        if state.processes.len() < self.application.processes_max {
            self.clerk.put(Letter::Pool(Arc::clone(self), Event::Wanted));
        }
        self.clerk.tick();
        Ok(())
    }

    /// Tells whether processes should be started.
    fn take(self: &Arc<Self>, mut state: MutexGuard<'_, State>, event: Event) -> bool {
        let mut answers = Answers::new();
        match event {
            Event::Begin { name, again, reply } => match self.lend(&mut state, &name, again) {
                Some(begun) => answers.push((reply, begun)),
                None => answers.extend(self.wait(&mut state, name, reply).err()),
            },
            Event::Wanted => {}
            Event::Started { number, result } => self.started(&mut state, number, result, &mut answers),
            Event::Free { number, stream } => self.free(&mut state, number, stream),
            Event::Unused { number } => {
                if let Some(process) = state.find(number) {
                    process.work = Work::Idle { stream: None, since: Instant::now() };
                }
            }
            Event::Useless { number } => {
                if let Some(process) = state.find(number) {
                    process.end();
                }
            }
            Event::Ended { number, how } => self.ended(&mut state, number, how),
        }
        while let Some(Waiting { name, .. }) = state.waiting.front() {
            let name = Arc::clone(name);
            let Some(begun) = self.lend(&mut state, &name, false) else { break };
            answers.extend(state.waiting.pop_front().map(|waiting| (waiting.reply, begun)));
        }
        let starting = state.starting();
        let is_short =
            starting < state.waiting.len() && state.processes.len() < self.application.processes_max;
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        is_short
    }

    fn started(
        &self,
        state: &mut State,
        number: u64,
        result: Result<Started, Refusal>,
        answers: &mut Answers,
    ) {
        match (state.find(number), result) {
            (Some(process), Ok(Started { running, .. })) => {
                process.running = Some(running);
                process.work = Work::Idle { stream: None, since: Instant::now() };
            }
            // It is ended as it is dropped.
            (None, _) => {}
            (Some(_), Err(why)) => {
                state.remove(number);
                self.gate.failed(Instant::now());
                answers.extend(state.refuse_first(why));
            }
        }
    }

    fn free(&self, state: &mut State, number: u64, stream: Option<OwnedFd>) {
        let Some(process) = state.find(number) else { return };
        process.served += 1;
        process.work = Work::Idle { stream, since: Instant::now() };
        if process.served >= self.application.requests_max {
            process.end();
        }
        self.gate.passed();
        self.clerk.tick();
    }

    fn ended(&self, state: &mut State, number: u64, how: Ended) {
        let Some(process) = state.remove(number) else { return };
        let of_its_own = match process.work {
            Work::Ending => !matches!(how, Ended::Signal(SIGTERM | SIGKILL) | Ended::Unknown),
            Work::Starting | Work::Idle { .. } | Work::Busy => true,
        };
        let name = &self.application.name;
        match (process.served, how) {
            (0, how) if of_its_own => {
                let pause = self.gate.failed(Instant::now());
                self.hears.say(format_args!(
                    "{name}: a process {} before it had served a request; not started again for {pause:?}",
                    Fate(how)
                ));
            }
            // Programs may have enough of it, as php-cgi has.
            (_, how) if of_its_own && how != Ended::Code(0) => {
                self.hears.say(format_args!("{name}: a process {}", Fate(how)));
            }
            _ => {}
        }
    }

    /// Starts as many processes as are waited for and allowed.
    fn start(self: &Arc<Self>) {
        let mut state = self.lock();
        let mut orders = Vec::new();
        let mut answers = Answers::new();
        while state.starting() < state.waiting.len()
            && state.processes.len() < self.application.processes_max
            && self.gate.admits(Instant::now())
        {
            match self.order(&mut state) {
                Ok(order) => orders.push(order),
                Err(error) => {
                    self.hears.say(format_args!("{}: no socket for it: {error}", self.application.name));
                    answers.extend(state.refuse_first(Refusal::Busy));
                }
            }
        }
        if state.processes.is_empty() {
            // It is closed, and to wait would be in vain.
            while let Some(answer) = state.refuse_first(Refusal::Busy) {
                answers.push(answer);
            }
        }
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        if let Some(keeper) = self.keeper.upgrade() {
            orders.into_iter().for_each(|order| keeper.begin(order));
        }
    }

    fn order(self: &Arc<Self>, state: &mut State) -> std::io::Result<Order> {
        let (door, listener) = Door::open()?;
        state.numbers += 1;
        let number = state.numbers;
        state.processes.push(Process { number, door, running: None, served: 0, work: Work::Starting });
        let mut variables = Variables::default();
        // php-cgi would leave after 500 requests: when it is replaced is decided here.
        variables.push(b"PHP_FCGI_MAX_REQUESTS", b"0");
        Ok(Order {
            what: What::Command { command: self.application.command },
            variables: Arc::new(variables),
            stdio: Stdio::Listener(listener),
            name: self.application.name.as_str().into(),
            watcher: Box::new(Staff::new(self, number)),
        })
    }

    /// Ends processes that have been idle for long, and refuses who has waited for long. Tells whether there are others.
    pub(crate) fn tidy(self: &Arc<Self>, now: Instant) -> bool {
        let mut state = self.lock();
        for process in &mut state.processes {
            if let Work::Idle { since, .. } = process.work
                && now.saturating_duration_since(since) >= self.application.idle
            {
                process.end();
            }
        }
        let mut answers = Answers::new();
        while state.waiting.front().is_some_and(|waiting| waiting.give_up_at <= now) {
            answers.extend(state.refuse_first(Refusal::Busy));
        }
        let is_needed = !state.processes.is_empty() || !state.waiting.is_empty();
        drop(state);
        answers.into_iter().for_each(|(reply, begun)| reply(begun));
        // The gate may have opened meanwhile.
        self.hear(Event::Wanted);
        is_needed
    }

    /// Nobody is left who could ask.
    pub(crate) fn close(&self) {
        let state = std::mem::take(&mut *self.lock());
        let busy = |waiting: Waiting| (waiting.reply)(Begun::Failed(Refusal::Busy));
        state.waiting.into_iter().for_each(busy);
    }
}

impl Process {
    fn end(&mut self) {
        self.running = None;
        self.work = Work::Ending;
    }
}

impl State {
    fn find(&mut self, number: u64) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.number == number)
    }

    fn remove(&mut self, number: u64) -> Option<Process> {
        let at = self.processes.iter().position(|process| process.number == number)?;
        Some(self.processes.remove(at))
    }

    fn starting(&self) -> usize {
        self.processes.iter().filter(|process| matches!(process.work, Work::Starting)).count()
    }

    fn refuse_first(&mut self, why: Refusal) -> Option<(Reply, Begun)> {
        self.waiting.pop_front().map(|waiting| (waiting.reply, Begun::Failed(why)))
    }
}

/// How a process ended, as it follows its name.
struct Fate(Ended);

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ended::Code(code) => write!(f, "ended with code {code}"),
            Ended::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Ended::Unknown => f.write_str("ended"),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("name", &self.name).finish_non_exhaustive()
    }
}
