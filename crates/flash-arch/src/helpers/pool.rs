//! The helpers of one device.
//!
//! As long as there may be more helpers, one always waits for work: the last idle helper starts another before it
//! begins a job. Helpers that are idle for a while end. Equal jobs are done once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::job::{Done, Failure, Find, Job, Outcome, Spent};
use flash_core::record::counters::Count;
use flash_disk::Device;
use flash_observe::RateLimit;
use flash_os::cpu_clock::{CpuClock, CurrentClock};
use flash_os::mpsc;
use flash_os::semaphore::Semaphore;
use parking_lot::Mutex;

use super::device_breaker::{BreakerState, DeviceBreaker, Transition};
use super::limits::HelperLimits;
use super::pool_state::{PoolState, Task};
use super::submission::{Submission, SubmitError};
use super::watchdog::Watchdog;
use crate::admin::snapshot::DeviceSnapshot;
use crate::clock::server_us;
use crate::completion_queue::{Completion, Waiter};
use crate::fair_queue::Lane;
use crate::helper_processes::JobExecutor;
use crate::limits::HELPER_NICE;
use crate::server_state::ServerState;

pub(super) struct Pool {
    pub(super) device: Device,
    limits: HelperLimits,
    /// A reload changes it.
    helpers_max: AtomicUsize,
    pub(super) shared: Arc<ServerState>,
    elsewhere: Option<Arc<Self>>,
    watchdog: Arc<Watchdog>,
    submissions: mpsc::Queue<Submission>,
    /// Jobs that no helper has begun yet.
    waiting: AtomicUsize,
    /// Posted once for each submission.
    work: Semaphore,
    /// No more jobs will be submitted.
    is_closed: AtomicBool,
    breaker: DeviceBreaker,
    /// Jobs in which the device has failed, and when the last one was. Zero stands for never.
    errors: AtomicU64,
    failed_us: AtomicU64,
    pub(super) state: Mutex<PoolState>,
}

/// At most this many submissions beyond the queue's limit wait while another thread holds its lock. That thread may
/// have the lowest priority. The next holder of the lock sheds the excess, so a flood costs its own client.
const UNSORTED_MAX: usize = 4096;
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;
/// So long after an error a device counts as one that fails.
const FAILS: Duration = Duration::from_secs(60);

impl Pool {
    /// Starts the first helper. The helpers of a local device hand names that lead to other devices to `elsewhere`.
    pub(super) fn start(
        device: Device,
        limits: HelperLimits,
        shared: Arc<ServerState>,
        watchdog: Arc<Watchdog>,
        elsewhere: Option<Arc<Self>>,
    ) -> io::Result<Arc<Self>> {
        let pool = Arc::new(Self::without_helpers(device, limits, shared, watchdog, elsewhere));
        let number = pool.state.lock().add_helper();
        pool.spawn(number)?;
        Ok(pool)
    }

    fn without_helpers(
        device: Device,
        limits: HelperLimits,
        shared: Arc<ServerState>,
        watchdog: Arc<Watchdog>,
        elsewhere: Option<Arc<Self>>,
    ) -> Self {
        let deadline = Duration::from_millis(shared.configuration().server.settings.disk_deadline_ms);
        Self {
            device,
            limits,
            helpers_max: AtomicUsize::new(limits.helpers_max),
            shared,
            elsewhere,
            watchdog,
            submissions: mpsc::Queue::new(),
            waiting: AtomicUsize::new(0),
            work: Semaphore::default(),
            is_closed: AtomicBool::new(false),
            breaker: DeviceBreaker::new(deadline),
            errors: AtomicU64::new(0),
            failed_us: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// What the pool does now. It takes the lock for a moment. `kind` says what its jobs are about.
    pub(super) fn snapshot(&self, kind: &str) -> DeviceSnapshot {
        let state = self.state.lock();
        let (helpers, idle, in_flight) = (state.helpers, state.idle, state.in_flight.len());
        let oldest_us = state.oldest_us();
        drop(state);
        let (now_us, failed_us) = (server_us(Instant::now()), self.failed_us.load(Ordering::Relaxed));
        DeviceSnapshot {
            mount: self.shared.disk.device_name(self.device),
            kind: kind.into(),
            healthy: Some(!self.breaker.is_open()),
            errors: self.errors.load(Ordering::Relaxed),
            fails: failed_us > 0 && now_us.saturating_sub(failed_us) < FAILS.as_micros() as u64,
            helpers: helpers as u64,
            helpers_max: self.helpers_max() as u64,
            idle: idle as u64,
            queued: self.waiting.load(Ordering::Relaxed) as u64,
            queue_max: self.limits.queue_max as u64,
            in_flight: in_flight as u64,
            oldest_us: oldest_us.map_or(0, |begun_us| now_us.saturating_sub(begun_us)),
        }
    }

    fn helpers_max(&self) -> usize {
        self.helpers_max.load(Ordering::Relaxed)
    }

    /// From now on there may be so many helpers, and at least one. Helpers beyond that end after their present job.
    pub(super) fn set_helpers_max(self: &Arc<Self>, helpers_max: usize) {
        self.helpers_max.store(helpers_max.max(1), Ordering::Relaxed);
        // If all helpers wait for the disk, none of them would start another one.
        let mut state = self.state.lock();
        let another = (state.idle == 0 && state.helpers < self.helpers_max()).then(|| state.add_helper());
        drop(state);
        if let Some(number) = another {
            self.start_another(number);
        }
    }

    /// Nobody submits jobs any more: the helpers end as soon as none is left.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.work.post();
    }

    /// Whether it has no job, and its device answers.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_waiting() && !self.breaker.is_open() && self.state.lock().in_flight.is_empty()
    }

    /// Whether jobs wait for a helper.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Submits a job, or returns why it was refused. Never waits.
    pub(super) fn submit(&self, mut submission: Submission) -> Result<(), SubmitError> {
        let queued = self.waiting.load(Ordering::Relaxed);
        let is_probe = match self.breaker.ask(server_us(submission.came), queued > 0) {
            BreakerState::Closed => false,
            BreakerState::HalfOpen => true,
            BreakerState::Open => return Err(SubmitError::DeviceDown),
        };
        if is_probe {
            submission.waiter = None;
        }
        if queued >= self.limits.queue_max {
            match self.state.try_lock() {
                Some(mut state) => return self.replace_another(&mut state, submission),
                None if queued >= self.limits.queue_max + UNSORTED_MAX => return self.refuse(),
                // The holder of the lock will queue it.
                None => {}
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.submissions.push(submission);
        self.work.post();
        if is_probe { Err(SubmitError::DeviceDown) } else { Ok(()) }
    }

    /// Adds a job to a queue that may be full. It joins an equal job that waits. Otherwise it replaces a job of the
    /// client with the most.
    fn replace_another(&self, state: &mut PoolState, submission: Submission) -> Result<(), SubmitError> {
        self.sort_submissions(state);
        let (key, submission) = match state.join(submission) {
            Ok(()) => {
                self.shared.metrics.add(Count::Joined, 1);
                return Ok(());
            }
            Err(new) => new,
        };
        if self.is_one_look_too_many(state, &submission) {
            return Err(SubmitError::Full);
        }
        if state.queue.len() >= self.limits.queue_max {
            match state.queue.shed_for(submission.lane()) {
                Some(task) => self.shed(state, &task),
                None => return self.refuse(),
            }
        }
        state.queue_up(key, submission);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.work.post();
        Ok(())
    }

    /// Fails a job that was shed for others.
    fn shed(&self, state: &mut PoolState, task: &Task) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let _ = self.refuse();
        for (waiter, _) in state.pending.remove(&task.key).into_iter().flat_map(|pending| pending.waiters) {
            waiter.tell(task.job.failed(Failure::Overloaded).into());
        }
    }

    fn refuse(&self) -> Result<(), SubmitError> {
        static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
        self.shared.metrics.add(Count::QueueFull, 1);
        let most = self.limits.queue_max;
        self.shared
            .error_log
            .log_limited(&FULL, format_args!("{most} jobs wait for the disk: one more was refused"));
        Err(SubmitError::Full)
    }

    fn log(&self, what: &str) {
        let name = self.shared.disk.device_name(self.device);
        self.shared.error_log.log(format_args!("{name} {what}"));
    }

    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<()> {
        let pool = Arc::clone(self);
        let name = match self.device.number {
            0 => format!("helper-{number}"),
            device => format!("helper-{device}-{number}"),
        };
        thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || pool.help()).map(drop)
    }

    /// The body of a helper's thread.
    fn help(self: &Arc<Self>) {
        // On Linux this sets the priority of this thread alone. If the kernel refuses, the helper runs all the same.
        let _ = rustix::process::nice(HELPER_NICE);
        let executor = self.shared.helper_kind.executor();
        loop {
            if !self.work.wait(IDLE_MAX) {
                if self.state.lock().may_leave() {
                    return;
                }
                if !self.shared.disk.has_device(self.device) {
                    // Then the pool is to be closed.
                    self.watchdog.notify();
                }
            } else if let Some((task, begun, another)) = self.take(executor.clock(), Instant::now) {
                if let Some(number) = another {
                    self.start_another(number);
                }
                if self.perform(task, begun, &executor) {
                    return;
                }
            } else if self.is_closed.load(Ordering::SeqCst) {
                self.state.lock().remove_helper();
                // For the next helper.
                self.work.post();
                return;
            }
        }
    }

    /// Takes the next job. If no helper is left idle, also returns the number of a helper to start.
    fn take(
        &self,
        helper: &Arc<CurrentClock>,
        clock: impl FnOnce() -> Instant,
    ) -> Option<(Task, Instant, Option<usize>)> {
        let mut state = self.state.lock();
        self.sort_submissions(&mut state);
        let (mut task, charge) =
            state.queue.pop(self.shared.configuration().server.settings.disk_share_of_new)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // Whoever joined later waits for as long as others may.
        let pending = state.pending.get(&task.key);
        task.came = pending
            .into_iter()
            .flat_map(|pending| &pending.waiters)
            .fold(task.came, |last, (_, came)| last.max(*came));
        // Read under the lock, so that jobs begin in the order of their times.
        let begun = clock();
        if let Job::Find(find) = &mut task.job {
            find.asked_ms = find.asked_ms.max(server_us(begun) / 1000);
        }
        state.begin(task.number, charge, server_us(begun), Arc::clone(helper));
        self.judge(&state, begun);
        let is_last = state.idle == 0 && state.helpers < self.helpers_max();
        let another = is_last.then(|| state.add_helper());
        drop(state);
        self.watchdog.wake();
        Some((task, begun, another))
    }

    /// Looks whether the device answers. Returns whether a helper is at work; then it has to be called again.
    pub(super) fn watch(
        &self,
        now: Instant,
        cpu_ns: impl Fn(u64, CpuClock) -> Option<u64>,
        is_runnable: impl Fn(CpuClock) -> bool,
    ) -> bool {
        let mut state = self.state.lock();
        let now_us = server_us(now);
        state.observe(now_us, cpu_ns, is_runnable);
        self.log_transition(self.breaker.observed(state.stuck_us(self.helpers_max()), now_us));
        !state.in_flight.is_empty()
    }

    fn sort_submissions(&self, state: &mut PoolState) {
        for submission in self.submissions.drain() {
            match state.join(submission) {
                Ok(()) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.shared.metrics.add(Count::Joined, 1);
                }
                Err((_, submission)) if self.is_one_look_too_many(state, &submission) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                }
                Err((key, submission)) => {
                    state.queue_up(key, submission);
                    if state.queue.len() > self.limits.queue_max
                        && let Some(task) = state.queue.shed_for(Lane::Looks)
                    {
                        self.shed(state, &task);
                    }
                }
            }
        }
    }

    /// Looks come before new names, so those that nobody waits for have half of the queue. A slow disk would have nothing but them.
    fn is_one_look_too_many(&self, state: &PoolState, submission: &Submission) -> bool {
        let is_look = submission.waiter.is_none() && submission.lane() == Lane::Looks;
        is_look && state.queue.looks() >= self.limits.queue_max.div_ceil(2)
    }

    fn judge(&self, state: &PoolState, now: Instant) {
        self.log_transition(self.breaker.reported(state.stuck_us(self.helpers_max()), server_us(now)));
    }

    fn log_transition(&self, change: Option<Transition>) {
        match change {
            Some(Transition::Opened) => self.log("does not answer: requests for it get 503 until it does"),
            Some(Transition::Closed) => self.log("answers again"),
            None => {}
        }
    }

    fn start_another(self: &Arc<Self>, number: usize) {
        if let Err(error) = self.spawn(number) {
            // The existing helpers will do the job.
            self.state.lock().remove_helper();
            log_unstarted(&self.shared, &error);
        }
    }

    /// Does a job. Returns whether its helper is to end.
    fn perform(&self, task: Task, begun: Instant, executor: &JobExecutor) -> bool {
        let Task { job, came, .. } = &task;
        let deadline = Duration::from_millis(self.shared.configuration().server.settings.disk_deadline_ms);
        let outcome = match begun.saturating_duration_since(*came) > deadline {
            // The client got an error when the deadline passed.
            true => Some(job.failed(Failure::TimedOut).into()),
            false => catch_unwind(AssertUnwindSafe(|| self.execute(job, executor))).unwrap_or_else(|panic| {
                self.shared.panicked(&*panic);
                Some(job.failed(Failure::Broken).into())
            }),
        };
        if let Some(outcome) = &outcome {
            while !self.shared.configuration().server.cache_result(job, &outcome.done) {
                thread::yield_now();
            }
        }
        self.finish(&task, begun, outcome, Instant::now)
    }

    fn execute(&self, job: &Job, executor: &JobExecutor) -> Option<Outcome> {
        let ServerState { disk, error_log, .. } = &*self.shared;
        let outcome = executor.help(disk, error_log, job, self.device);
        if let Some(outcome) = &outcome {
            self.shared.note(job, outcome);
            if outcome.error.is_some() {
                self.errors.fetch_add(1, Ordering::Relaxed);
                self.failed_us.store(server_us(Instant::now()), Ordering::Relaxed);
            }
        }
        outcome
    }

    /// A helper has finished a job: pushes the result to all who wait for it. Returns whether the helper is one too many.
    fn finish(
        &self,
        Task { number, key, job, .. }: &Task,
        begun: Instant,
        outcome: Option<Outcome>,
        clock: impl FnOnce() -> Instant,
    ) -> bool {
        self.shared.metrics.add(Count::HelperJobs, 1);
        let (waiters, now, leaves) = {
            let mut state = self.state.lock();
            // Equal jobs that were submitted meanwhile get the same result.
            self.sort_submissions(&mut state);
            let now = clock();
            state.end(*number, server_us(now));
            self.judge(&state, now);
            let mut waiters = state.pending.remove(key).map_or_else(Vec::new, |pending| pending.waiters);
            self.look_again(&mut state, job, begun, outcome.as_ref(), &mut waiters);
            let leaves = state.helpers > self.helpers_max();
            if leaves {
                state.remove_helper();
            }
            (waiters, now, leaves)
        };
        let help_ns = now.saturating_duration_since(begun).as_nanos() as u64;
        for (waiter, came) in waiters {
            match outcome.clone() {
                Some(Outcome { done, spent, error }) => {
                    // A waiter that joined late waited for no helper.
                    let queue_ns = begun.saturating_duration_since(came).as_nanos() as u64;
                    waiter.tell(Outcome { done, spent: Spent { queue_ns, help_ns, ..spent }, error });
                }
                None => self.send_elsewhere(job.clone(), waiter, came),
            }
        }
        leaves
    }

    /// If a look at the disk began too long before a request came, it is too old for it. Such requests wait for
    /// another look.
    fn look_again(
        &self,
        state: &mut PoolState,
        job: &Job,
        begun: Instant,
        outcome: Option<&Outcome>,
        waiters: &mut Vec<(Waiter, Instant)>,
    ) {
        let (Job::Find(find), Some(Outcome { done: Done::Found(entry), .. })) = (job, outcome) else {
            return;
        };
        let good_for = Duration::from_millis(self.shared.configuration().server.settings.revalidate_ms);
        let late = waiters.extract_if(.., |(_, came)| *came > begun + good_for);
        for (waiter, came) in late.collect::<Vec<_>>() {
            let job = Job::Find(Find { known: Some(Arc::clone(entry)), ..find.clone() });
            match state.join(Submission { job, waiter: Some(waiter), came }) {
                Ok(()) => {}
                Err((key, submission)) => {
                    state.queue_up(key, submission);
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    self.work.post();
                }
            }
        }
    }

    fn send_elsewhere(&self, job: Job, waiter: Waiter, came: Instant) {
        let (completions, token, exchange) = (Arc::clone(&waiter.completions), waiter.token, waiter.exchange);
        let known = job.clone();
        let refusal = match &self.elsewhere {
            Some(pool) => pool.submit(Submission { job, waiter: Some(waiter), came }).err(),
            None => Some(SubmitError::Full),
        };
        if let Some(refusal) = refusal {
            completions
                .push(token, Completion::Done(exchange, Outcome::from(known.failed(refusal.failure()))));
        }
    }
}

/// Logs why there can be no helper. Each job may try again.
pub(super) fn log_unstarted(shared: &ServerState, error: &io::Error) {
    static NONE: RateLimit = RateLimit::every(Duration::from_secs(5));
    shared.error_log.log_limited(&NONE, format_args!("cannot start a helper: {error}"));
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(super) mod tests;
