//! Helpers: threads that do the jobs that would make a loop wait (Flash §3.4).
//!
//! They are started when there is more to do than hands, and leave when there has been nothing to do for a while.
//! Equal jobs are done once, whoever asks for them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::job::{Done, Failure, Job};
use flash_observe::Rarely;
use parking_lot::{Condvar, Mutex};

use crate::inbox::Inbox;
use crate::shared::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits {
    pub helpers_max: usize,
    /// Jobs that wait for a helper; one more is refused.
    pub queue_max: usize,
}

/// Who wants to hear of a job's end.
pub(crate) struct Waiter {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) token: u64,
}

pub(crate) struct Helpers {
    limits: HelperLimits,
    shared: Arc<Shared>,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Kind, Job)>,
    /// Jobs in the queue or under way, and who waits for them.
    waiting: HashMap<Kind, Vec<Waiter>>,
    helpers: usize,
    idle: usize,
    started: usize,
    /// Tells apart the jobs that are nobody's equal.
    serial: u64,
}

/// Jobs of the same kind have the same result.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Find(Vec<u8>),
    /// A file is known by its address: the job keeps it alive, so that no other can take its place.
    Load {
        file: usize,
        window: Range<u64>,
        copy: bool,
    },
    Single(u64),
}

const IDLE_MAX: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;
const HELPER_NICE: i32 = 19;

impl Helpers {
    pub(crate) fn new(limits: HelperLimits, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { limits, shared, state: Mutex::default(), work: Condvar::new() })
    }

    /// Takes a job, to be done soon. `false` when there are too many already, or no helper to be had.
    pub(crate) fn submit(self: &Arc<Self>, job: Job, waiter: Option<Waiter>) -> bool {
        static FULL: Rarely = Rarely::every(Duration::from_secs(5));
        let mut state = self.state.lock();
        let kind = state.kind(&job);
        if let Some(waiters) = state.waiting.get_mut(&kind) {
            waiters.extend(waiter);
            drop(state);
            self.shared.ledger.joined.add(1);
            return true;
        }
        if state.queue.len() >= self.limits.queue_max {
            drop(state);
            self.shared.ledger.queue_full.add(1);
            let most = self.limits.queue_max;
            self.shared
                .error_log
                .say_rarely(&FULL, format_args!("{most} jobs wait for the disk: one more was refused"));
            return false;
        }
        state.waiting.insert(kind.clone(), waiter.into_iter().collect());
        state.queue.push_back((kind, job));
        if state.idle >= state.queue.len() || state.helpers == self.limits.helpers_max {
            drop(state);
            self.work.notify_one();
            return true;
        }
        state.helpers += 1;
        state.started += 1;
        let number = state.started;
        drop(state);
        self.start(number)
    }

    fn start(self: &Arc<Self>, number: usize) -> bool {
        static NONE: Rarely = Rarely::every(Duration::from_secs(5));
        let helpers = Arc::clone(self);
        let builder = thread::Builder::new().name(format!("helper-{number}")).stack_size(STACK_BYTES);
        let Err(error) = builder.spawn(move || helpers.help()) else { return true };
        self.shared.error_log.say_rarely(&NONE, format_args!("cannot start a helper: {error}"));
        let mut state = self.state.lock();
        state.helpers -= 1;
        if state.helpers > 0 {
            // The others will come to it.
            return true;
        }
        let orphans = std::mem::take(&mut state.queue);
        let waiting = std::mem::take(&mut state.waiting);
        drop((state, orphans));
        waiting.into_values().flatten().for_each(|waiter| waiter.tell(Done::Failed(Failure::Busy)));
        // Whoever asked has just been told.
        true
    }

    /// A helper's life.
    fn help(&self) {
        // Of this thread alone, on Linux: where processors are short, those who must not wait come first. Refused or
        // not, the helper helps.
        let _ = rustix::process::nice(HELPER_NICE);
        while let Some((kind, job)) = self.next() {
            let done =
                catch_unwind(AssertUnwindSafe(|| self.shared.disk.help(&job))).unwrap_or_else(|panic| {
                    self.shared.panicked(&*panic);
                    Done::Failed(Failure::Broken)
                });
            self.shared.site.learn(&job, &done);
            self.shared.ledger.helper_jobs.add(1);
            let waiters = self.state.lock().waiting.remove(&kind);
            for waiter in waiters.into_iter().flatten() {
                waiter.tell(done.clone());
            }
        }
    }

    /// The next job; `None` when it is time to leave.
    fn next(&self) -> Option<(Kind, Job)> {
        let mut state = self.state.lock();
        loop {
            if let Some(next) = state.queue.pop_front() {
                return Some(next);
            }
            state.idle += 1;
            let late = self.work.wait_for(&mut state, IDLE_MAX).timed_out();
            state.idle -= 1;
            if late && state.queue.is_empty() {
                state.helpers -= 1;
                return None;
            }
        }
    }
}

impl State {
    fn kind(&mut self, job: &Job) -> Kind {
        match job {
            Job::Find(find) => Kind::Find(find.path.as_bytes().to_vec()),
            Job::Load(load) => Kind::Load {
                file: Arc::as_ptr(&load.file).addr(),
                window: load.window.clone(),
                copy: load.copy,
            },
            Job::List(_) => {
                self.serial += 1;
                Kind::Single(self.serial)
            }
        }
    }
}

impl Waiter {
    fn tell(self, done: Done) {
        self.inbox.put(self.token, done);
    }
}

#[cfg(test)]
mod tests;
