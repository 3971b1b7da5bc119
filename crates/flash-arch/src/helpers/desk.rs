//! What the helpers of a pool share among themselves: the queue, who waits for what, and which jobs are under way.
//!
//! It lies under the pool's lock, which no loop ever waits for.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use flash_core::job::Job;

use super::Waiter;

#[derive(Default)]
pub(super) struct Desk {
    pub(super) queue: VecDeque<Task>,
    /// Jobs in the queue or under way, and who waits for them since when.
    pub(super) asked: HashMap<Kind, Vec<(Waiter, Instant)>>,
    pub(super) helpers: usize,
    pub(super) idle: usize,
    pub(super) started: usize,
    /// When the jobs under way began, the oldest first.
    begun_us: Vec<u64>,
    /// When that job began which began last of those that came back.
    good_us: u64,
    /// Tells apart the jobs that are nobody's equal.
    serial: u64,
    /// No two jobs are equal.
    all_differ: bool,
}

pub(super) struct Arrival {
    pub(super) job: Job,
    pub(super) waiter: Option<Waiter>,
    pub(super) came: Instant,
}

pub(super) struct Task {
    pub(super) kind: Kind,
    pub(super) job: Job,
    pub(super) came: Instant,
}

/// Jobs of the same kind have the same result.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Find(Vec<u8>),
    /// A file is known by its address: the job keeps it alive, so that no other can take its place.
    Load {
        file: usize,
        window: Range<u64>,
        copy: bool,
    },
    Single(u64),
}

impl Desk {
    pub(super) fn new(single_flight: bool) -> Self {
        Self { all_differ: !single_flight, ..Self::default() }
    }

    /// A new helper is coming. Returns its number.
    pub(super) fn enrol(&mut self) -> usize {
        self.helpers += 1;
        self.idle += 1;
        self.started += 1;
        self.started
    }

    pub(super) fn strike_off(&mut self) {
        self.helpers -= 1;
        self.idle -= 1;
    }

    /// Whether a helper that found nothing to do is one too many.
    pub(super) fn may_leave(&mut self) -> bool {
        let leaves = self.idle > 1;
        if leaves {
            self.strike_off();
        }
        leaves
    }

    /// Joins a job to its equal, if there is one.
    pub(super) fn join(&mut self, arrival: Arrival) -> Result<(), (Kind, Arrival)> {
        let kind = self.kind(&arrival.job);
        let Some(waiters) = self.asked.get_mut(&kind) else { return Err((kind, arrival)) };
        waiters.extend(arrival.waiter.map(|waiter| (waiter, arrival.came)));
        Ok(())
    }

    pub(super) fn queue_up(&mut self, kind: Kind, Arrival { job, waiter, came }: Arrival) {
        self.asked.insert(kind.clone(), waiter.map(|waiter| (waiter, came)).into_iter().collect());
        self.queue.push_back(Task { kind, job, came });
    }

    fn kind(&mut self, job: &Job) -> Kind {
        match job {
            Job::Find(find) if !self.all_differ => Kind::Find(find.path.as_bytes().to_vec()),
            Job::Load(load) if !self.all_differ => Kind::Load {
                file: Arc::as_ptr(&load.file).addr(),
                window: load.window.clone(),
                copy: load.copy,
            },
            _ => {
                self.serial += 1;
                Kind::Single(self.serial)
            }
        }
    }

    /// An idle helper goes to work.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.idle -= 1;
        self.begun_us.push(now_us);
    }

    /// It is back.
    pub(super) fn end(&mut self, begun_us: u64) {
        self.idle += 1;
        self.good_us = self.good_us.max(begun_us);
        if let Some(place) = self.begun_us.iter().position(|begun| *begun == begun_us) {
            self.begun_us.remove(place);
        }
    }

    /// Since when the device may have ceased to answer: the beginning of the oldest job under way with none behind it
    /// that has come back. Where every hand is taken, there can be none behind: then that of the last.
    pub(super) fn suspect_us(&self, helpers_max: usize) -> Option<u64> {
        let newer = self.begun_us.iter().find(|begun| **begun > self.good_us);
        let last = self.begun_us.last().filter(|_| self.begun_us.len() >= helpers_max);
        newer.or(last).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_hangs_alone_says_nothing_of_the_device() {
        let mut desk = Desk::default();
        assert_eq!([desk.enrol(), desk.enrol(), desk.enrol()], [1, 2, 3]);
        assert_eq!(desk.suspect_us(3), None);
        desk.begin(10);
        assert_eq!(desk.suspect_us(3), Some(10));
        desk.begin(20);
        assert_eq!(desk.suspect_us(3), Some(10));
        desk.end(20);
        assert_eq!(desk.suspect_us(3), None, "one that began later is back");
        desk.begin(30);
        assert_eq!(desk.suspect_us(3), Some(30), "the next says something again");
        desk.begin(40);
        assert_eq!(desk.suspect_us(3), Some(30));
        desk.end(10);
        assert_eq!(desk.suspect_us(3), Some(30), "late news is old news");
        desk.end(40);
        assert_eq!(desk.suspect_us(3), None);
    }

    #[test]
    fn with_every_hand_taken_the_last_one_counts() {
        let mut desk = Desk::default();
        assert_eq!([desk.enrol(), desk.enrol()], [1, 2]);
        desk.begin(10);
        desk.begin(20);
        desk.end(20);
        desk.begin(30);
        desk.end(30);
        desk.begin(31);
        desk.end(31);
        desk.begin(31);
        assert_eq!(desk.suspect_us(2), Some(31));
    }
}
