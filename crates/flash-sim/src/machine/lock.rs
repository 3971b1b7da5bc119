//! A lock, and what happens to those who find it taken.

use crate::engine::{Level, Links, Time, WaitQueue};
use crate::parameters::LockWait;

use super::entities::{NONE, Runner};

/// Guards a cache, or both.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    holder: u32,
    pub(super) line: WaitQueue,
    held: Level,
    pub(super) taken: u64,
    pub(super) contended: u64,
    pub(super) waited: Time,
}

impl Lock {
    pub(super) fn new() -> Lock {
        Lock {
            holder: NONE,
            line: WaitQueue::default(),
            held: Level::default(),
            taken: 0,
            contended: 0,
            waited: 0,
        }
    }

    /// A runner wants it, again perhaps. True if it has it now; otherwise it stands in line.
    pub(super) fn take(&mut self, links: &mut Links, who: u32, runner: &mut Runner, now: Time) -> bool {
        let handed_over = self.holder == who;
        if self.holder != NONE && !handed_over {
            if runner.lock_asked.is_none() {
                self.contended += 1;
                runner.lock_asked = Some(now);
            }
            self.line.push(links, who, now);
            return false;
        }
        if !handed_over {
            self.own(who, now);
        }
        self.taken += 1;
        self.waited += runner.lock_asked.take().map_or(0, |asked| now - asked);
        true
    }

    /// Its holder lets go. Returns who may go on: with the lock, or to try again.
    pub(super) fn release(&mut self, links: &mut Links, wait: LockWait, now: Time) -> Option<u32> {
        self.holder = NONE;
        self.held.remove(1, now);
        let next = self.line.pop(links, now)?;
        match wait {
            LockWait::Sleep => {}
            LockWait::Handed | LockWait::Spin => self.own(next, now),
        }
        Some(next)
    }

    pub(super) fn reset(&mut self, now: Time) {
        self.line.reset(now);
        self.held.reset(now);
        (self.taken, self.contended, self.waited) = (0, 0, 0);
    }

    pub(super) fn held_mean(&self, now: Time) -> f64 {
        self.held.mean(now)
    }

    fn own(&mut self, who: u32, now: Time) {
        self.holder = who;
        self.held.add(1, now);
    }
}
