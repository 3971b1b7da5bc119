//! *mt*: a thread for each connection that is served, on shared caches.
//!
//! Threads start [on demand](threads) and retire when idle. A connection that waits for its client holds none: it is
//! [parked](shared_poller).

mod shared_poller;
mod threads;

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_core::{Connection, Evictable};
use flash_observe::RateLimit;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::blocking::{Arrival, Blocking, LOOK_UP, ServedClient, Source};
use crate::connections::gates::{ThreadGates, steps_at_once};
use crate::connections::listener::Listeners;
use crate::connections::transport::Transport;
use crate::connections::victims::is_among_first;
use crate::mt::shared_poller::{Event, SharedPoller};
use crate::mt::threads::Threads;
use crate::server_state::ServerState;
use crate::service::Startup;

/// Address space. A thread touches 12 to 35 KiB of it.
const STACK_BYTES: usize = 256 << 10;
/// One in so many threads may wait for a log-in, so that guesses leave threads for files.
const THREADS_PER_LOGIN: usize = 4;
/// How long a thread beyond the least number waits for a connection before it retires.
const RETIRE_AFTER: Duration = Duration::from_secs(10);

pub(crate) fn serve(threads: usize, threads_max: usize, startup: Startup<'_>) -> io::Result<()> {
    let mut service = startup.begin(|_| Ok(()))?;
    service.warm_up();
    let shared = Arc::clone(&service.shared);
    let pool = Arc::new(Pool {
        shared: Arc::clone(&shared),
        threads: Threads::new(threads, threads_max),
        poller: SharedPoller::new()?,
        logins: AtomicUsize::new(0),
        logins_max: (threads_max / THREADS_PER_LOGIN).max(1),
        handshakes: ThreadGates::new(steps_at_once()),
        in_vain: Mutex::default(),
        started: AtomicUsize::new(0),
    });
    pool.poller.watch(&shared.listeners.load())?;
    let watching = Arc::clone(&pool);
    spawn(&shared, "deadlines", move || watching.poller.watch_deadlines(&watching.shared))?;
    for _ in 0..threads {
        pool.start_thread()?;
    }
    service.run(move |listeners| pool.refresh(listeners), || shared.wait_for_connections(LOOK_UP * 2))
}

struct Pool {
    shared: Arc<ServerState>,
    threads: Threads,
    poller: SharedPoller,
    /// Threads that wait for the check of a log-in, and how many may.
    logins: AtomicUsize,
    logins_max: usize,
    handshakes: ThreadGates,
    /// How early connections give way whose threads wait for their clients in vain, by the numbers of the threads.
    in_vain: Mutex<BTreeMap<usize, Evictable>>,
    /// How many threads have been started.
    started: AtomicUsize,
}

impl Pool {
    /// Accepts at these listeners from now on, and at none once the server drains.
    fn refresh(&self, listeners: &Arc<Listeners>) {
        if self.shared.is_draining() {
            self.poller.drain();
        } else if let Err(error) = self.poller.watch(listeners) {
            self.shared.error_log.log(format_args!("cannot accept connections at a new listener: {error}"));
        }
    }

    fn start_thread(self: &Arc<Self>) -> io::Result<()> {
        self.threads.start(|| {
            let number = self.started.fetch_add(1, Ordering::Relaxed);
            let waiter = Waiter { pool: Arc::clone(self), number, waits: true, is_in_vain: false };
            let shared = Arc::clone(&self.shared);
            spawn(&self.shared, "worker", move || Blocking::new(shared, waiter).run())
        })
    }
}

/// One thread's view of the pool.
struct Waiter {
    pool: Arc<Pool>,
    number: usize,
    /// Whether it counts among those that wait.
    waits: bool,
    /// It waits for its client in vain, and others know.
    is_in_vain: bool,
}

impl Waiter {
    /// Begins to serve a connection. Starts another thread for the next one if none is left.
    fn begin(&mut self) {
        static NO_THREAD: RateLimit = RateLimit::every(Duration::from_secs(60));
        self.waits = false;
        if self.pool.threads.end_wait()
            && let Err(error) = self.pool.start_thread()
        {
            let count = self.pool.threads.count();
            self.pool.shared.error_log.log_limited(
                &NO_THREAD,
                format_args!(
                    "cannot start another thread: {error}; {count} serve, and connections wait for them"
                ),
            );
        }
    }
}

impl Source for Waiter {
    fn next(&mut self) -> Option<Arrival> {
        loop {
            if !std::mem::replace(&mut self.waits, true) {
                self.pool.threads.begin_wait();
            }
            let timeout = self.pool.threads.may_retire().then_some(RETIRE_AFTER);
            let arrival = match self.pool.poller.wait(timeout) {
                Event::Parked(client) => Arrival::Parked(client),
                Event::Listener(number) => match self.pool.poller.accept(number) {
                    Ok((socket, transport)) => Arrival::New(socket, transport),
                    // INVAL: the listener is shut.
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::INVAL) => {
                        continue;
                    }
                    Err(error) => Arrival::Failed(error),
                },
                Event::TimedOut => {
                    self.waits = false;
                    // The last thread that waits stays, because a busy one may have relied on it.
                    if !self.pool.threads.end_wait() && self.pool.threads.retire() {
                        return None;
                    }
                    continue;
                }
                Event::Nothing => continue,
            };
            self.begin();
            return Some(arrival);
        }
    }

    fn may_wait(&self) -> bool {
        !self.pool.threads.is_short()
    }

    fn take_step(&self, patience: Duration, step: &mut dyn FnMut()) -> bool {
        self.pool.handshakes.pass(patience).map(|_gate| step()).is_some()
    }

    fn begin_login(&mut self) -> bool {
        let more = |logins| (logins < self.pool.logins_max).then_some(logins + 1);
        self.pool.logins.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn end_login(&mut self) {
        self.pool.logins.fetch_sub(1, Ordering::Relaxed);
    }

    fn parks(&self, _: &Connection, _: &Transport) -> bool {
        true
    }

    fn park(&mut self, client: Box<ServedClient>) {
        self.pool.poller.park(client);
    }

    fn take_victim(&mut self) -> Option<Box<ServedClient>> {
        self.pool.poller.take_victim(&self.pool.shared)
    }

    fn lacks_places(&self) -> bool {
        self.pool.shared.permits.are_wanted() || self.pool.threads.is_short()
    }

    /// A connection that could be parked is, and gives way from there.
    fn gives_way(&mut self, evictable: Option<Evictable>) -> bool {
        let Some(own @ Evictable::Behind(_)) = evictable else { return false };
        self.is_in_vain = true;
        let mut in_vain = self.pool.in_vain.lock();
        in_vain.insert(self.number, own);
        is_among_first(own, in_vain.values().copied())
            && (self.pool.shared.permits.are_wanted() || self.pool.poller.has_event())
    }

    fn goes_on(&mut self) {
        if mem::take(&mut self.is_in_vain) {
            self.pool.in_vain.lock().remove(&self.number);
        }
    }

    fn take_oldest_handshake(&mut self) -> Option<Box<ServedClient>> {
        let mut oldest = self.pool.poller.take_oldest_handshake()?;
        oldest.transport.shed();
        Some(oldest)
    }
}

fn spawn(
    shared: &Arc<ServerState>,
    name: &'static str,
    life: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let life = move || {
        shared.run_vital(name, || {
            life();
            Ok(())
        });
    };
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(life).map(drop)
}
