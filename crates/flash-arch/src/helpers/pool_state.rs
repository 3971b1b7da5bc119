//! The state that the helpers of a pool share: the queue, the waiters of each job, and the jobs under way.
//!
//! The pool's lock protects it. No loop ever waits for this lock.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use flash_core::job::Job;
use flash_core::listing::Order;
use flash_core::site::id::SiteId;
use flash_os::cpu_clock::{CpuClock, CurrentClock};

use super::submission::Submission;
use crate::completion_queue::Waiter;
use crate::fair_queue::{Charge, FairQueue};

#[derive(Default)]
pub(super) struct PoolState {
    pub(super) queue: FairQueue<Task>,
    /// Jobs in the queue or under way.
    pub(super) pending: HashMap<JobKey, Pending>,
    pub(super) helpers: usize,
    pub(super) idle: usize,
    pub(super) started: usize,
    /// The jobs that helpers work on, the oldest first.
    pub(super) in_flight: Vec<InFlight>,
    /// The latest beginning of all jobs that have come back.
    good_us: u64,
    /// The number of the last job.
    serial: u64,
    /// The device's time is shared by all jobs under way. So much of it a job would have had that was under way from the start.
    device_ns: u64,
    looked_us: u64,
}

pub(super) struct Task {
    /// No other job has this number.
    pub(super) number: u64,
    pub(super) key: JobKey,
    pub(super) job: Job,
    pub(super) came: Instant,
}

/// A job's number, and its waiters, each with the time since when.
pub(super) struct Pending {
    number: u64,
    pub(super) waiters: Vec<(Waiter, Instant)>,
}

/// A job that a helper works on.
pub(super) struct InFlight {
    number: u64,
    begun_us: u64,
    /// Whom its share of the device's time is charged to, and what that counts from.
    charge: Charge,
    device_ns: u64,
    helper: Arc<CurrentClock>,
    /// The helper's processor time at the last look.
    cpu_ns: Option<u64>,
    /// When the helper was last seen to use the processor; at first the job's beginning.
    moved_us: u64,
}

/// Less processor time than this is no progress. A thread that is woken for a moment uses some.
const PROGRESS_NS: u64 = 50_000;

/// Jobs of the same kind have the same result.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum JobKey {
    Find {
        site: SiteId,
        path: Box<[u8]>,
        /// The bits of the set of codings.
        codings: u8,
    },
    /// The file's address. The job keeps the file alive, so no other file can have this address.
    Load {
        file: usize,
        window: Range<u64>,
        copy: bool,
        completes: Option<Box<Range<u64>>>,
    },
    /// The next step of a listing that is not ready.
    List {
        site: SiteId,
        path: Box<[u8]>,
        order: Order,
    },
    /// A page of a listing that is ready, and the listing's address.
    Page {
        listing: usize,
        page: u32,
    },
    Single(u64),
}

impl PoolState {
    /// Counts a new helper. Returns its number.
    pub(super) fn add_helper(&mut self) -> usize {
        self.helpers += 1;
        self.idle += 1;
        self.started += 1;
        self.started
    }

    pub(super) fn remove_helper(&mut self) {
        self.helpers -= 1;
        self.idle -= 1;
    }

    /// Whether an idle helper may end. It then no longer counts.
    pub(super) fn may_leave(&mut self) -> bool {
        let leaves = self.idle > 1;
        if leaves {
            self.remove_helper();
        }
        leaves
    }

    /// Joins a job to an equal one. Returns the job if there is none.
    // What comes back is a job to queue, not an error that travels far.
    #[allow(clippy::result_large_err)]
    pub(super) fn join(&mut self, submission: Submission) -> Result<(), (JobKey, Submission)> {
        let key = self.key(&submission.job);
        let lane = submission.lane();
        let Some(pending) = self.pending.get_mut(&key) else { return Err((key, submission)) };
        pending.waiters.extend(submission.waiter.map(|waiter| (waiter, submission.came)));
        self.queue.stand(pending.number, lane);
        Ok(())
    }

    pub(super) fn queue_up(&mut self, key: JobKey, submission: Submission) {
        self.serial += 1;
        let (number, lane) = (self.serial, submission.lane());
        let Submission { job, waiter, came } = submission;
        let waiters = waiter.map(|waiter| (waiter, came)).into_iter().collect();
        self.pending.insert(key.clone(), Pending { number, waiters });
        self.queue.push(number, Task { number, key, job, came }, lane);
    }

    fn key(&mut self, job: &Job) -> JobKey {
        match job {
            Job::Find(find) => JobKey::Find {
                site: find.site,
                path: find.path.as_bytes().into(),
                codings: find.codings.bits(),
            },
            Job::Load(load) => JobKey::Load {
                file: Arc::as_ptr(&load.file).addr(),
                window: load.window.clone(),
                copy: load.copy,
                completes: load.completes.clone(),
            },
            Job::List(list) => match &list.listing {
                Some(listing) if listing.is_ready() => {
                    JobKey::Page { listing: Arc::as_ptr(listing).addr(), page: list.page }
                }
                _ => JobKey::List { site: list.site, path: list.path.as_bytes().into(), order: list.order },
            },
            _ => {
                self.serial += 1;
                JobKey::Single(self.serial)
            }
        }
    }

    /// An idle helper goes to work.
    pub(super) fn begin(&mut self, number: u64, charge: Charge, now_us: u64, helper: Arc<CurrentClock>) {
        self.look_at_clock(now_us);
        self.idle -= 1;
        self.in_flight.push(InFlight {
            number,
            begun_us: now_us,
            charge,
            device_ns: self.device_ns,
            helper,
            cpu_ns: None,
            moved_us: now_us,
        });
    }

    /// A helper has finished its job.
    pub(super) fn end(&mut self, number: u64, now_us: u64) {
        self.look_at_clock(now_us);
        self.idle += 1;
        if let Some(place) = self.in_flight.iter().position(|job| job.number == number) {
            let job = self.in_flight.remove(place);
            self.good_us = self.good_us.max(job.begun_us);
            self.queue.charge(job.charge, self.device_ns - job.device_ns);
        }
    }

    /// Gives each job under way its share of the time since the last look.
    fn look_at_clock(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.looked_us);
        self.device_ns += passed_us * 1000 / self.in_flight.len().max(1) as u64;
        self.looked_us = self.looked_us.max(now_us);
    }

    /// Looks which helpers have used the processor since the last time, or wait for it. On a busy machine a helper
    /// may wait for the processor longer than for any disk. `cpu_ns` reads the clock of a job's helper.
    pub(super) fn observe(
        &mut self,
        now_us: u64,
        cpu_ns: impl Fn(u64, CpuClock) -> Option<u64>,
        is_runnable: impl Fn(CpuClock) -> bool,
    ) {
        for job in &mut self.in_flight {
            let now_ns = cpu_ns(job.number, job.helper.get());
            match (job.cpu_ns, now_ns) {
                (Some(before), Some(now)) if now < before + PROGRESS_NS => {
                    if is_runnable(job.helper.get()) {
                        job.moved_us = now_us;
                    }
                }
                (Some(_), _) => (job.cpu_ns, job.moved_us) = (now_ns, now_us),
                (None, _) => job.cpu_ns = now_ns,
            }
        }
    }

    /// When the oldest job under way began.
    pub(super) fn oldest_us(&self) -> Option<u64> {
        self.in_flight.iter().map(|job| job.begun_us).min()
    }

    /// Since when helpers have been stuck in a call to the device. A job counts only if no job that began later has
    /// come back. If every helper has a job, no later one can begin; then all of them have to be stuck.
    pub(super) fn stuck_us(&self, helpers_max: usize) -> Option<u64> {
        let newer = self.in_flight.iter().filter(|job| job.begun_us > self.good_us);
        let all_taken = self.in_flight.len() >= helpers_max;
        let last = || self.in_flight.iter().map(|job| job.moved_us).max().filter(|_| all_taken);
        newer.map(|job| job.moved_us).min().or_else(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Arc<CurrentClock> {
        Arc::new(CurrentClock::new(CpuClock::of_this_thread()))
    }

    fn begin(state: &mut PoolState, now_us: u64) {
        state.begin(now_us, Charge::default(), now_us, clock());
    }

    fn end(state: &mut PoolState, number: u64) {
        state.end(number, number);
    }

    #[test]
    fn a_job_that_hangs_alone_says_nothing_of_the_device() {
        let mut state = PoolState::default();
        assert_eq!([state.add_helper(), state.add_helper(), state.add_helper()], [1, 2, 3]);
        assert_eq!(state.stuck_us(3), None);
        begin(&mut state, 10);
        assert_eq!(state.stuck_us(3), Some(10));
        begin(&mut state, 20);
        assert_eq!(state.stuck_us(3), Some(10));
        end(&mut state, 20);
        assert_eq!(state.stuck_us(3), None, "one that began later is back");
        begin(&mut state, 30);
        assert_eq!(state.stuck_us(3), Some(30), "the next says something again");
        begin(&mut state, 40);
        assert_eq!(state.stuck_us(3), Some(30));
        end(&mut state, 10);
        assert_eq!(state.stuck_us(3), Some(30), "late news is old news");
        end(&mut state, 40);
        assert_eq!(state.stuck_us(3), None);
    }

    #[test]
    fn with_every_helper_taken_the_last_one_counts() {
        let mut state = PoolState::default();
        assert_eq!([state.add_helper(), state.add_helper()], [1, 2]);
        begin(&mut state, 10);
        begin(&mut state, 20);
        end(&mut state, 20);
        begin(&mut state, 30);
        end(&mut state, 30);
        state.begin(1, Charge::default(), 31, clock());
        end(&mut state, 1);
        begin(&mut state, 31);
        assert_eq!(state.stuck_us(2), Some(31));
    }

    #[test]
    fn a_helper_that_uses_the_processor_is_not_stuck() {
        let mut state = PoolState::default();
        state.add_helper();
        begin(&mut state, 10);
        state.observe(100, |_, _| Some(5), |_| false);
        assert_eq!(state.stuck_us(9), Some(10), "the first look only notes what there is");
        state.observe(200, |_, _| Some(5 + PROGRESS_NS - 1), |_| false);
        assert_eq!(state.stuck_us(9), Some(10), "woken for a moment");
        state.observe(300, |_, _| Some(5 + PROGRESS_NS), |_| false);
        assert_eq!(state.stuck_us(9), Some(300));
        state.observe(400, |_, _| Some(5 + PROGRESS_NS), |_| false);
        assert_eq!(state.stuck_us(9), Some(300));
        state.observe(500, |_, _| Some(5 + PROGRESS_NS), |_| true);
        assert_eq!(state.stuck_us(9), Some(500), "it waits for the processor");
    }

    #[test]
    fn the_devices_time_is_shared_by_all_jobs_under_way() {
        let mut state = PoolState::default();
        (0..3).for_each(|_| _ = state.add_helper());
        let device_us = |state: &mut PoolState, now_us| {
            state.look_at_clock(now_us);
            state.device_ns / 1000
        };
        let before = device_us(&mut state, 100);
        begin(&mut state, 200);
        begin(&mut state, 300);
        assert_eq!(device_us(&mut state, 300), before + 200, "nothing to share");
        begin(&mut state, 400);
        assert_eq!(device_us(&mut state, 400), before + 250, "two have shared 100");
        state.end(200, 700);
        assert_eq!(device_us(&mut state, 700), before + 350, "three have shared 300");
    }
}
