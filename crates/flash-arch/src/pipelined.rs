//! *pipelined*: a thread per step (Choi, Kim, Ersoz and Das, 2005).
//!
//! A pool is five stage threads and two helpers. All pools share the caches:
//!
//! ```text
//! accept → read request → find file → send header → read file and send data
//!               ↑             |            |                   |
//!               └─────────────┴────────────┴───────────────────┘   the next request
//! ```
//!
//! A connection is a box that moves from thread to thread through [`queue`]s, and belongs to one of them at a time. A
//! stage takes its whole queue and gives each connection its turn ([`steps`]). It hands them on in one batch for each
//! other stage. A job that would wait for a disk goes to the stage's helper. The connection waits in the stage's
//! [parked connections](parked), like one whose socket is not ready.

mod parked;
mod queue;
mod stage;
mod steps;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::Connection;
use flash_core::cache::local::LocalCache;
use flash_observe::metrics::Gauge;

use crate::amped::Asymmetric;
use crate::clock::Clock;
use crate::completion_queue::{Completion, CompletionQueue};
use crate::connections::acceptor::{ACCEPTS_PER_TURN, Acceptor, Arrival};
use crate::connections::loop_threads::LoopThreads;
use crate::helpers::{HelperLimits, Helpers};
use crate::pipelined::parked::{NEW, Slot};
use crate::pipelined::queue::{Item, Queue, Queues, With};
use crate::pipelined::stage::Stage;
use crate::pipelined::steps::{FindFile, ReadRequest, SendData, SendHeader};
use crate::poller::Poller;
use crate::poller::readiness::ReadinessPoller;
use crate::server_state::{ServerParts, ServerState};
use crate::service::Startup;

/// How often each thread is asked for a connection that gives way to a new one. A connection whose response has been sent may be on its
/// way from the last step back to the first, and neither has it then. When a thread is asked, it has handed on what it had at an earlier
/// question. The first step parks what has come in its next turn but one.
const ROUNDS: usize = 4;

pub(crate) fn serve(pools: usize, helpers: HelperLimits, startup: Startup<'_>) -> io::Result<()> {
    let mut service = startup.begin(ServerParts::leave_to_helpers)?;
    service.warm_up();
    let shared = &service.shared;
    shared.explain_blocks();
    // In each pool and for each device, one helper for pathnames and one for reading.
    let helpers = HelperLimits { helpers_max: 1, ..helpers };
    let pools =
        (0..pools).map(|number| Pool::start(number, helpers, shared)).collect::<io::Result<Vec<_>>>()?;
    // Idle connections are at the first step, and clients that do not read at the last.
    let last = STEPS - 1;
    let steps =
        [0, last].map(|step| pools.iter().map(move |pool| Arc::clone(pool.queues[step].completions())));
    let queues = steps.into_iter().flatten().collect();
    shared.set_threads(LoopThreads { loops: pools.len(), queues, rounds: ROUNDS });
    let wakers: Vec<_> = pools.iter().map(Pool::waker).collect();
    service.run(move |_| wakers.iter().for_each(|wake| wake()), || pools.into_iter().for_each(Pool::join))
}

pub(crate) struct Pool {
    completions: Arc<CompletionQueue>,
    queues: Arc<Queues>,
    accept: JoinHandle<()>,
    steps: [JoinHandle<()>; STEPS],
}

/// Threads of a pool that answer requests.
pub(crate) const STEPS: usize = 4;

impl Pool {
    pub(crate) fn start(number: usize, helpers: HelperLimits, shared: &Arc<ServerState>) -> io::Result<Self> {
        let queue = || Queue::new().map(Arc::new);
        let queues = Arc::new([queue()?, queue()?, queue()?, queue()?]);
        let [to_read, to_find, to_head, to_data] = &*queues;
        // A helper for each of the two steps that may need the disk.
        let dispatch = |queue: &Queue<Item>| -> io::Result<_> {
            let helpers = Helpers::start(helpers, Arc::clone(shared))?;
            Ok(Asymmetric {
                shared: Arc::clone(shared),
                helpers,
                completions: Arc::clone(queue.completions()),
            })
        };
        let local = LocalCache::new(shared.configuration().server.paths.local_bytes_max());
        let find = FindFile { dispatch: dispatch(to_find)?, local };
        let data = SendData { dispatch: dispatch(to_data)? };
        let name = |step: &str| format!("{step}-{number}");
        let read = ReadRequest::new(Arc::clone(&shared.logins));
        let unfinished = Arc::default();
        let steps = [
            Stage::spawn(name("read"), read, shared, &queues, to_read, &unfinished)?,
            Stage::spawn(name("find"), find, shared, &queues, to_find, &unfinished)?,
            Stage::spawn(name("header"), SendHeader, shared, &queues, to_head, &unfinished)?,
            Stage::spawn(name("data"), data, shared, &queues, to_data, &unfinished)?,
        ];
        let completions = Arc::new(CompletionQueue::new()?);
        let accept = Accept::spawn(name("accept"), Arc::clone(shared), &completions, to_read, &unfinished)?;
        Ok(Self { completions, queues, accept, steps })
    }

    /// Wakes the threads of the pool.
    pub(crate) fn waker(&self) -> impl Fn() + Clone + Send + use<> {
        let (accept, steps) = (Arc::clone(&self.completions), Arc::clone(&self.queues));
        move || {
            accept.wake();
            steps.iter().for_each(|queue| queue.completions().wake());
        }
    }

    /// Waits for the end of the pool's threads, from the first step to the last. Closes each queue when the step
    /// before it has ended.
    pub(crate) fn join(self) {
        // A thread that panicked has logged that itself.
        let _ = self.accept.join();
        for (queue, step) in self.queues.iter().zip(self.steps) {
            queue.close();
            let _ = step.join();
        }
    }
}

/// The step *accept connection*.
struct Accept {
    shared: Arc<ServerState>,
    clock: Clock,
    poller: ReadinessPoller,
    acceptor: Acceptor,
    to_read: Arc<Queue<Item>>,
    /// Connections of the pool whose handshakes wait for their clients.
    unfinished: Arc<Gauge>,
}

impl Accept {
    fn spawn(
        name: String,
        shared: Arc<ServerState>,
        completions: &Arc<CompletionQueue>,
        to_read: &Arc<Queue<Item>>,
        unfinished: &Arc<Gauge>,
    ) -> io::Result<JoinHandle<()>> {
        let mut poller = ReadinessPoller::new(completions, NEW)?;
        let mut acceptor = Acceptor::new(&shared, |listener| listener as u64)?;
        acceptor.open(&mut poller)?;
        let (to_read, unfinished) = (Arc::clone(to_read), Arc::clone(unfinished));
        let state = Arc::clone(&shared);
        let mut accept = Self { shared, clock: Clock::new(), poller, acceptor, to_read, unfinished };
        thread::Builder::new().name(name.clone()).spawn(move || state.run_vital(&name, || accept.run()))
    }

    fn run(&mut self) -> io::Result<()> {
        self.poller.begin()?;
        let mut batch = Vec::new();
        while !self.shared.is_draining() {
            let pause = self.acceptor.wait_ms(self.clock.now.ms()).map(|ms| Duration::from_millis(ms + 1));
            self.poller.wait(pause)?;
            self.clock.read();
            self.acceptor.retry(&mut self.poller, self.clock.now.ms());
            for listener in self.acceptor.removed(&self.shared) {
                self.accept(listener, &mut batch);
            }
            self.acceptor.refresh(&self.shared, &mut self.poller, self.clock.now.ms());
            while let Some(event) = self.poller.next() {
                if event.token != NEW {
                    self.accept(event.token as usize, &mut batch);
                }
            }
            if !batch.is_empty() {
                self.to_read.push_new(&mut batch);
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize, batch: &mut Vec<Item>) {
        let shared = &self.shared;
        for _ in 0..ACCEPTS_PER_TURN {
            match self.acceptor.accept(shared, &mut self.poller, listener, self.clock.now.ms()) {
                Some(Arrival::Permitted(socket, transport, permit)) => {
                    let configuration = shared.configuration();
                    let settings = &configuration.server.settings;
                    let connection = Connection::new(transport, settings, &self.clock.now);
                    let carries = shared.transport(&transport, &self.unfinished, self.clock.now.ms());
                    let slot = Slot::new(connection, carries, socket, permit);
                    batch.push(Item { slot: Box::new(slot), with: With::Nothing });
                }
                // Idle connections, which may give up their permits, are parked at the next step.
                Some(Arrival::WaitingConnection(waiting_connection)) => {
                    self.to_read.completions().push(NEW, Completion::WaitingConnection(waiting_connection))
                }
                Some(Arrival::Gone) => {}
                None => break,
            }
        }
        self.acceptor.listen_again(&mut self.poller, listener, self.clock.now.ms());
    }
}
