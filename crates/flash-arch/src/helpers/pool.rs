//! The helpers of one device.
//!
//! One of them always waits for work, as long as there may be more: the last that goes to work starts another. Those that
//! have had nothing to do for a while leave. Equal jobs are done once, whoever asks for them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_core::job::{Done, Failure, Job, Outcome, Spent};
use flash_disk::Device;
use flash_observe::Rarely;
use flash_os::mailbox::Mailbox;
use flash_os::semaphore::Semaphore;
use parking_lot::Mutex;

use super::desk::{Arrival, Desk, Kind, Task};
use super::health::{Health, Verdict};
use super::{HelperLimits, Refusal, Waiter};
use crate::clock::server_us;
use crate::hands::Hand;
use crate::shared::Shared;

pub(super) struct Pool {
    pub(super) device: Device,
    limits: HelperLimits,
    pub(super) shared: Arc<Shared>,
    elsewhere: Option<Arc<Self>>,
    arrivals: Mailbox<Arrival>,
    /// Jobs that no helper has begun yet.
    waiting: AtomicUsize,
    /// Posted once for each arrival.
    work: Semaphore,
    health: Health,
    pub(super) desk: Mutex<Desk>,
}

/// What nobody waits for may take one in so many of the queue's places: on a busy disk second looks are soon more than
/// requests, and must not turn those away.
const AHEAD: usize = 8;
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 << 10;
pub(crate) const HELPER_NICE: i32 = 19;

impl Pool {
    /// Starts the first of them.
    /// Those of a local device hand what leads away from it to another pool.
    pub(super) fn start(
        device: Device,
        limits: HelperLimits,
        shared: Arc<Shared>,
        elsewhere: Option<Arc<Self>>,
    ) -> io::Result<Arc<Self>> {
        let pool = Arc::new(Self::without_helpers(device, limits, shared, elsewhere));
        let number = pool.desk.lock().enrol();
        pool.spawn(number)?;
        Ok(pool)
    }

    fn without_helpers(
        device: Device,
        limits: HelperLimits,
        shared: Arc<Shared>,
        elsewhere: Option<Arc<Self>>,
    ) -> Self {
        let deadline = Duration::from_millis(shared.site.settings.disk_deadline_ms);
        Self {
            device,
            limits,
            shared,
            elsewhere,
            arrivals: Mailbox::new(),
            waiting: AtomicUsize::new(0),
            work: Semaphore::default(),
            health: Health::new(deadline),
            desk: Mutex::new(Desk::new(limits.single_flight)),
        }
    }

    /// Takes a job, to be done soon, or says why not. Never waits.
    pub(super) fn submit(&self, mut arrival: Arrival) -> Result<(), Refusal> {
        if arrival.waiter.is_none() && self.waiting.load(Ordering::Relaxed) >= self.limits.queue_max / AHEAD {
            return Err(Refusal::Full);
        }
        let is_probe =
            match self.health.ask(server_us(arrival.came), self.waiting.load(Ordering::Relaxed) > 0) {
                Verdict::Well => false,
                Verdict::Probe => true,
                Verdict::Sick { news } => {
                    if news {
                        self.say("does not answer: requests for it get 503 until it does");
                    }
                    return Err(Refusal::Sick);
                }
            };
        if is_probe {
            arrival.waiter = None;
        }
        if self.is_full() {
            // Equals among them may take places only because no helper has had the time to look.
            if let Some(mut desk) = self.desk.try_lock() {
                self.sort_arrivals(&mut desk);
                arrival = match desk.join(arrival) {
                    Ok(()) => {
                        self.shared.ledger.joined.add(1);
                        return Ok(());
                    }
                    Err((_, arrival)) => arrival,
                };
            }
            if self.is_full() {
                self.refuse();
                return Err(Refusal::Full);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.arrivals.put(arrival);
        self.work.post();
        if is_probe { Err(Refusal::Sick) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.limits.queue_max
    }

    fn refuse(&self) {
        static FULL: Rarely = Rarely::every(Duration::from_secs(5));
        self.shared.ledger.queue_full.add(1);
        let most = self.limits.queue_max;
        self.shared
            .error_log
            .say_rarely(&FULL, format_args!("{most} jobs wait for the disk: one more was refused"));
    }

    fn say(&self, what: &str) {
        let name = self.shared.disk.device_name(self.device);
        self.shared.error_log.say(format_args!("{name} {what}"));
    }

    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<()> {
        let pool = Arc::clone(self);
        let name = match self.device.number {
            0 => format!("helper-{number}"),
            device => format!("helper-{device}-{number}"),
        };
        thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || pool.help()).map(drop)
    }

    /// A helper's life.
    fn help(self: &Arc<Self>) {
        // Of this thread alone, on Linux: where processors are short, those who must not wait come first. Refused or
        // not, the helper helps.
        let _ = rustix::process::nice(HELPER_NICE);
        let hand = self.shared.hands.hand();
        loop {
            if !self.work.wait(IDLE_MAX) {
                if self.desk.lock().may_leave() {
                    return;
                }
            } else if let Some((task, begun, another)) = self.take(Instant::now) {
                if let Some(number) = another {
                    self.start_another(number);
                }
                self.perform(task, begun, &hand);
            }
        }
    }

    /// The next job, unless it was one that somebody does already. If nobody is left to wait for more, another helper
    /// is to be started, under the number that comes with it.
    fn take(&self, clock: impl FnOnce() -> Instant) -> Option<(Task, Instant, Option<usize>)> {
        let mut desk = self.desk.lock();
        self.sort_arrivals(&mut desk);
        let task = desk.queue.pop_front()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // Read under the lock: jobs are to begin in the order of their times.
        let begun = clock();
        desk.begin(server_us(begun));
        self.judge(&desk, begun);
        let is_last = desk.idle == 0 && desk.helpers < self.limits.helpers_max;
        Some((task, begun, is_last.then(|| desk.enrol())))
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

    fn judge(&self, desk: &Desk, now: Instant) {
        if self.health.tell(desk.suspect_us(self.limits.helpers_max), server_us(now)) {
            self.say("answers again");
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

    fn perform(&self, Task { kind, job, came }: Task, begun: Instant, hand: &Hand) {
        let deadline = Duration::from_millis(self.shared.site.settings.disk_deadline_ms);
        let outcome = match begun.saturating_duration_since(came) > deadline {
            // Whoever asked for it has been answered long ago.
            true => Some(Done::Failed(Failure::Late).into()),
            false => catch_unwind(AssertUnwindSafe(|| hand.help(&self.shared, &job, self.device)))
                .unwrap_or_else(|panic| {
                    self.shared.panicked(&*panic);
                    Some(Done::Failed(Failure::Broken).into())
                }),
        };
        if let Some(outcome) = &outcome {
            while !self.shared.site.learn(&job, &outcome.done) {
                thread::yield_now();
            }
        }
        self.finish(&kind, &job, begun, outcome, Instant::now);
    }

    /// A helper is back from a job: everybody who waits for it is told.
    fn finish(
        &self,
        kind: &Kind,
        job: &Job,
        begun: Instant,
        outcome: Option<Outcome>,
        clock: impl FnOnce() -> Instant,
    ) {
        self.shared.ledger.helper_jobs.add(1);
        let (waiters, now) = {
            let mut desk = self.desk.lock();
            // Those who have asked for the same by now need not ask the disk.
            self.sort_arrivals(&mut desk);
            desk.end(server_us(begun));
            let now = clock();
            self.judge(&desk, now);
            (desk.asked.remove(kind), now)
        };
        let help_ns = now.saturating_duration_since(begun).as_nanos() as u64;
        for (waiter, came) in waiters.into_iter().flatten() {
            match outcome.clone() {
                Some(Outcome { done, spent }) => {
                    // Who joined late waited for no helper.
                    let queue_ns = begun.saturating_duration_since(came).as_nanos() as u64;
                    waiter.tell(Outcome { done, spent: Spent { queue_ns, help_ns, ..spent } });
                }
                None => self.send_elsewhere(job.clone(), waiter, came),
            }
        }
    }

    fn send_elsewhere(&self, job: Job, waiter: Waiter, came: Instant) {
        let (inbox, token) = (Arc::clone(&waiter.inbox), waiter.token);
        let refusal = match &self.elsewhere {
            Some(pool) => pool.submit(Arrival { job, waiter: Some(waiter), came }).err(),
            None => Some(Refusal::Full),
        };
        if let Some(refusal) = refusal {
            inbox.put(token, Outcome::from(Done::Failed(refusal.failure())));
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
