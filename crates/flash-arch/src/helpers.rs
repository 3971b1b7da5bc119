//! Helpers: threads that do the jobs that would make a loop wait (Flash §3.4).
//!
//! A loop hands its jobs over without a lock and without a system call that could sleep; everything else is the
//! helpers' own affair. One of them always waits for work, as long as there may be more: the last that goes to work
//! starts another. Those that have had nothing to do for a while leave. Equal jobs are done once, whoever asks for them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::job::{Done, Failure, Job, Outcome, Spent};
use flash_observe::Rarely;
use flash_os::mailbox::Mailbox;
use flash_os::semaphore::Semaphore;
use parking_lot::Mutex;

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
    arrivals: Mailbox<Arrival>,
    /// Jobs that no helper has begun yet.
    waiting: AtomicUsize,
    /// Posted once for each arrival.
    work: Semaphore,
    desk: Mutex<Desk>,
}

struct Arrival {
    job: Job,
    waiter: Option<Waiter>,
    came: Instant,
}

/// What the helpers share among themselves.
#[derive(Default)]
struct Desk {
    queue: VecDeque<Task>,
    /// Jobs in the queue or under way, and who waits for them since when.
    asked: HashMap<Kind, Vec<(Waiter, Instant)>>,
    helpers: usize,
    idle: usize,
    started: usize,
    /// Tells apart the jobs that are nobody's equal.
    serial: u64,
}

struct Task {
    kind: Kind,
    job: Job,
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
    /// Starts the first of them.
    pub(crate) fn start(limits: HelperLimits, shared: Arc<Shared>) -> io::Result<Arc<Self>> {
        let helpers = Arc::new(Self {
            limits,
            shared,
            arrivals: Mailbox::new(),
            waiting: AtomicUsize::new(0),
            work: Semaphore::default(),
            desk: Mutex::default(),
        });
        let number = helpers.desk.lock().enrol();
        helpers.spawn(number)?;
        Ok(helpers)
    }

    /// Takes a job, to be done soon; `false` when there are too many already. Never waits.
    pub(crate) fn submit(&self, job: Job, waiter: Option<Waiter>) -> bool {
        static FULL: Rarely = Rarely::every(Duration::from_secs(5));
        let mut arrival = Arrival { job, waiter, came: Instant::now() };
        if self.is_full() {
            // Equals among them may take places only because no helper has had the time to look.
            if let Some(mut desk) = self.desk.try_lock() {
                self.sort_arrivals(&mut desk);
                arrival = match desk.join(arrival) {
                    Ok(()) => {
                        self.shared.ledger.joined.add(1);
                        return true;
                    }
                    Err((_, arrival)) => arrival,
                };
            }
            if self.is_full() {
                self.shared.ledger.queue_full.add(1);
                let most = self.limits.queue_max;
                self.shared
                    .error_log
                    .say_rarely(&FULL, format_args!("{most} jobs wait for the disk: one more was refused"));
                return false;
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.arrivals.put(arrival);
        self.work.post();
        true
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.limits.queue_max
    }

    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<()> {
        let helpers = Arc::clone(self);
        let builder = thread::Builder::new().name(format!("helper-{number}")).stack_size(STACK_BYTES);
        builder.spawn(move || helpers.help()).map(drop)
    }

    /// A helper's life.
    fn help(self: &Arc<Self>) {
        // Of this thread alone, on Linux: where processors are short, those who must not wait come first. Refused or
        // not, the helper helps.
        let _ = rustix::process::nice(HELPER_NICE);
        loop {
            if !self.work.wait(IDLE_MAX) {
                if self.desk.lock().may_leave() {
                    return;
                }
            } else if let Some((task, another)) = self.take() {
                if let Some(number) = another {
                    self.start_another(number);
                }
                self.perform(task);
            }
        }
    }

    /// The next job, unless it was one that somebody does already. If nobody is left to wait for more, another helper
    /// is to be started, under the number that comes with it.
    fn take(&self) -> Option<(Task, Option<usize>)> {
        let mut desk = self.desk.lock();
        self.sort_arrivals(&mut desk);
        let task = desk.queue.pop_front()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        desk.idle -= 1;
        let is_last = desk.idle == 0 && desk.helpers < self.limits.helpers_max;
        Some((task, is_last.then(|| desk.enrol())))
    }

    fn sort_arrivals(&self, desk: &mut Desk) {
        for arrival in self.arrivals.take_all() {
            match desk.join(arrival) {
                Ok(()) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.shared.ledger.joined.add(1);
                }
                Err((kind, arrival)) => desk.queue_up(kind, arrival),
            }
        }
    }

    fn start_another(self: &Arc<Self>, number: usize) {
        static NONE: Rarely = Rarely::every(Duration::from_secs(5));
        if let Err(error) = self.spawn(number) {
            // Those who are there will come to it.
            self.desk.lock().strike_off();
            self.shared.error_log.say_rarely(&NONE, format_args!("cannot start a helper: {error}"));
        }
    }

    fn perform(&self, Task { kind, job }: Task) {
        let begun = Instant::now();
        let mut outcome =
            catch_unwind(AssertUnwindSafe(|| self.shared.disk.help(&job))).unwrap_or_else(|panic| {
                self.shared.panicked(&*panic);
                Done::Failed(Failure::Broken).into()
            });
        while !self.shared.site.learn(&job, &outcome.done) {
            thread::yield_now();
        }
        self.shared.ledger.helper_jobs.add(1);
        outcome.spent.help_ns = begun.elapsed().as_nanos() as u64;
        let waiters = {
            let mut desk = self.desk.lock();
            // Those who have asked for the same by now need not ask the disk.
            self.sort_arrivals(&mut desk);
            desk.idle += 1;
            desk.asked.remove(&kind)
        };
        for (Waiter { inbox, token }, came) in waiters.into_iter().flatten() {
            // Who joined late waited for no helper.
            let queue_ns = begun.saturating_duration_since(came).as_nanos() as u64;
            let Outcome { done, spent } = outcome.clone();
            inbox.put(token, Outcome { done, spent: Spent { queue_ns, ..spent } });
        }
    }
}

impl Desk {
    /// A new helper is coming. Returns its number.
    fn enrol(&mut self) -> usize {
        self.helpers += 1;
        self.idle += 1;
        self.started += 1;
        self.started
    }

    fn strike_off(&mut self) {
        self.helpers -= 1;
        self.idle -= 1;
    }

    /// Whether a helper that found nothing to do is one too many.
    fn may_leave(&mut self) -> bool {
        let leaves = self.idle > 1;
        if leaves {
            self.strike_off();
        }
        leaves
    }

    /// Joins a job to its equal, if there is one.
    fn join(&mut self, arrival: Arrival) -> Result<(), (Kind, Arrival)> {
        let kind = self.kind(&arrival.job);
        let Some(waiters) = self.asked.get_mut(&kind) else { return Err((kind, arrival)) };
        waiters.extend(arrival.waiter.map(|waiter| (waiter, arrival.came)));
        Ok(())
    }

    fn queue_up(&mut self, kind: Kind, Arrival { job, waiter, came }: Arrival) {
        self.asked.insert(kind.clone(), waiter.map(|waiter| (waiter, came)).into_iter().collect());
        self.queue.push_back(Task { kind, job });
    }

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

#[cfg(test)]
mod tests;
