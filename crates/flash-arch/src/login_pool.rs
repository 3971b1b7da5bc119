//! The pool that checks log-ins: threads of its own, so that neither loops nor helpers wait for a password's hash.
//!
//! It has half as many threads as there are processors, at the lowest priority and in short slices. Its queue is bounded and [fair](FairQueue): a
//! flood of one client's guesses sheds that client's own. Equal log-ins are checked once. Processes of mp have a thread each, and
//! [gates](crate::connections::gates) that all of them share. What a check does is not known here.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::clients::login::{Check, CheckKey};
use flash_core::job::{Done, Failure};
use flash_core::record::counters::Count;
use flash_core::{Connection, Context, ExchangeId, Server};
use flash_observe::ErrorLog;
use flash_observe::metrics::Metrics;
use flash_os::semaphore::Semaphore;
use flash_os::{mpsc, sched};
use parking_lot::Mutex;

use crate::clock::server_us;
use crate::completion_queue::{CompletionQueue, Waiter};
use crate::connections::gates::ProcessGates;
use crate::fair_queue::{ClientNetwork, FairQueue, Lane};
use crate::limits::HELPER_NICE;

pub(crate) struct LoginPool {
    submissions: mpsc::Queue<Submission>,
    /// Checks that no thread has begun.
    waiting: AtomicUsize,
    /// Posted once for each submission.
    work: Semaphore,
    state: Mutex<PoolState>,
    /// How many threads were started.
    threads: Mutex<usize>,
    metrics: Arc<Metrics>,
    error_log: ErrorLog,
}

#[derive(Default)]
struct PoolState {
    queue: FairQueue<Task>,
    pending: HashMap<CheckKey, Pending>,
    last_number: u64,
}

struct Submission {
    check: Box<dyn Check>,
    waiter: Waiter,
    came: Instant,
}

struct Task {
    check: Box<dyn Check>,
    came: Instant,
}

/// Those who wait for a check.
struct Pending {
    number: u64,
    waiters: Vec<Waiter>,
}

/// Checks that wait. At 100 ms each, the last of them takes some seconds.
const QUEUE_MAX: usize = 64;
/// The percentage of all checks for networks that come for the first time.
const SHARE_OF_NEW: u8 = 50;

/// More than these are refused unseen, while another thread holds the queue.
const UNSORTED_MAX: usize = 4 * QUEUE_MAX;
/// A check that has waited for longer is not worth its processor any more.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a thread sleeps at a time without work.
const IDLE: Duration = Duration::from_secs(3600);
/// The hashes need a few KiB.
const STACK_BYTES: usize = 256 << 10;

/// How many checks run at once: half of the processors are left for everything else.
pub(crate) fn checks_at_once() -> usize {
    (thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

impl LoginPool {
    pub(crate) fn new(metrics: Arc<Metrics>, error_log: ErrorLog) -> Arc<Self> {
        Arc::new(Self {
            submissions: mpsc::Queue::new(),
            waiting: AtomicUsize::new(0),
            work: Semaphore::default(),
            state: Mutex::default(),
            threads: Mutex::new(0),
            metrics,
            error_log,
        })
    }

    /// Starts the threads, if a site of the server has users. To be called before it serves, and by no loop.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start_for(
        self: &Arc<Self>,
        server: &Server,
        gates: Option<&ProcessGates>,
    ) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let wanted = match gates {
            _ if !server.settings.has_users => 0,
            // The processes of mp have a processor for each gate between them.
            Some(_) => 1,
            None => checks_at_once(),
        };
        while *threads < wanted {
            let (pool, gates) = (Arc::clone(self), gates.cloned());
            let builder = thread::Builder::new().name("log-ins".into()).stack_size(STACK_BYTES);
            builder.spawn(move || pool.run(gates.as_ref()))?;
            *threads += 1;
        }
        Ok(())
    }

    /// Submits the check that an exchange wants. The result comes to `completions` under `token`, unless too many checks wait.
    /// Returns whether it will come.
    pub(crate) fn check(
        &self,
        connection: &mut Connection,
        id: ExchangeId,
        completions: &Arc<CompletionQueue>,
        token: u64,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(check) = connection.check(id) else { return false };
        let client = ClientNetwork::of(connection.peer());
        let waiter = Waiter { completions: Arc::clone(completions), token, exchange: id, client };
        match self.submit(check, waiter) {
            Ok(()) => true,
            Err(failure) => {
                connection.completed(id, Done::Failed(failure).into(), cx);
                false
            }
        }
    }

    /// Submits a check. Its result goes to the waiter. Never waits.
    ///
    /// # Errors
    /// If too many checks wait.
    fn submit(&self, check: Box<dyn Check>, waiter: Waiter) -> Result<(), Failure> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= UNSORTED_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.metrics.add(Count::LoginsRefused, 1);
            return Err(Failure::Overloaded);
        }
        self.submissions.push(Submission { check, waiter, came: Instant::now() });
        self.work.post();
        // Otherwise who holds the lock sorts them.
        if waiting >= QUEUE_MAX
            && let Some(mut state) = self.state.try_lock()
        {
            self.sort_submissions(&mut state);
        }
        Ok(())
    }

    /// The body of a thread.
    fn run(&self, gates: Option<&ProcessGates>) {
        // On Linux this sets the priority of this thread alone. If the kernel refuses, the thread runs all the same.
        let _ = rustix::process::nice(HELPER_NICE);
        // A thread may run to the end of its slice when another one wakes. So a long one would delay loops, and clients here.
        let _ = sched::set_slice(sched::SLICE_NS_MIN);
        loop {
            if self.work.wait(IDLE)
                && let Some(task) = self.take()
            {
                let _gate = gates.map(ProcessGates::pass);
                self.perform(&task);
            }
        }
    }

    fn take(&self) -> Option<Task> {
        let mut state = self.state.lock();
        self.sort_submissions(&mut state);
        // Each takes about the same time.
        let (task, _) = state.queue.pop(SHARE_OF_NEW)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }

    fn perform(&self, Task { check, came }: &Task) {
        let done = match came.elapsed() > PATIENCE {
            true => Done::Failed(Failure::TimedOut),
            false => {
                self.metrics.add(Count::Logins, 1);
                // The time of the result, so that it is remembered for long enough.
                let run = || check.run(server_us(Instant::now()) / 1000);
                catch_unwind(AssertUnwindSafe(run)).map_or_else(
                    |_| {
                        self.metrics.add(Count::Panics, 1);
                        self.error_log.log(format_args!("internal error, a log-in could not be checked"));
                        Done::Failed(Failure::Broken)
                    },
                    Done::Checked,
                )
            }
        };
        let mut state = self.state.lock();
        // Equal checks that were submitted meanwhile get the same result.
        self.sort_submissions(&mut state);
        let waiters = state.pending.remove(&check.key()).map(|pending| pending.waiters);
        drop(state);
        waiters.into_iter().flatten().for_each(|waiter| waiter.tell(done.clone().into()));
    }

    fn sort_submissions(&self, state: &mut PoolState) {
        for Submission { check, waiter, came } in self.submissions.drain() {
            let (key, lane) = (check.key(), Lane::Client(waiter.client));
            if let Some(pending) = state.pending.get_mut(&key) {
                pending.waiters.push(waiter);
                state.queue.stand(pending.number, lane);
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            state.last_number += 1;
            let number = state.last_number;
            state.pending.insert(key, Pending { number, waiters: vec![waiter] });
            state.queue.push(number, Task { check, came }, lane);
            if state.queue.len() > QUEUE_MAX
                && let Some(task) = state.queue.shed_for(Lane::Looks)
            {
                self.shed(state, &task);
            }
        }
    }

    /// Refuses a check that was shed for others.
    fn shed(&self, state: &mut PoolState, task: &Task) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        for waiter in state.pending.remove(&task.check.key()).into_iter().flat_map(|pending| pending.waiters)
        {
            self.metrics.add(Count::LoginsRefused, 1);
            waiter.tell(Done::Failed(Failure::Overloaded).into());
        }
    }
}

#[cfg(test)]
mod tests;
