//! The scoreboard of mp: what each worker process does, in memory that all processes share.
//!
//! A worker writes its own state, and looks at those of the others. So it learns that it was the last idle one without a
//! message. The parent writes a state only before it starts a worker.

use std::io;
use std::sync::atomic::Ordering::SeqCst;

use flash_core::Evictable;
use flash_os::shared_array::{SharedBytes, SharedWords};

use crate::connections::victims::is_among_first;

pub(super) struct Scoreboard {
    states: SharedBytes,
    /// Where each worker's connection is counted, plus one.
    held: SharedWords,
    /// How early each worker's connection gives way, if its client keeps it waiting.
    evictable: SharedWords,
    /// Not 0 once the workers shall end, each after its connection.
    retired: SharedBytes,
}

/// No worker has this number.
const ABSENT: u8 = 0;
/// A worker is being started.
const STARTING: u8 = 1;
/// A worker waits for a connection.
const IDLE: u8 = 2;
/// A worker serves a connection.
const BUSY: u8 = 3;
/// A worker serves a connection, and waits for its next request.
const BETWEEN: u8 = 4;
/// A worker serves a connection, and waits for the check of a log-in.
const LOGIN: u8 = 5;
/// One in so many workers may wait for a log-in, so that guesses leave workers for files.
const WORKERS_PER_LOGIN: usize = 4;

impl Scoreboard {
    pub(super) fn new(workers_max: usize) -> io::Result<Self> {
        let words = || SharedWords::zeroed(workers_max);
        let (states, held, evictable) = (SharedBytes::zeroed(workers_max)?, words()?, words()?);
        Ok(Self { states, held, evictable, retired: SharedBytes::zeroed(1)? })
    }

    /// Tells the workers to end, each after its connection.
    pub(super) fn retire_all(&self) {
        self.retired[0].store(1, SeqCst);
    }

    pub(super) fn are_retired(&self) -> bool {
        self.retired[0].load(SeqCst) != 0
    }

    fn count(&self, are: impl Fn(u8) -> bool) -> usize {
        self.states.iter().filter(|state| are(state.load(SeqCst))).count()
    }

    pub(super) fn workers(&self) -> usize {
        self.count(|state| state != ABSENT)
    }

    pub(super) fn busy(&self) -> usize {
        self.count(|state| matches!(state, BUSY | BETWEEN | LOGIN))
    }

    pub(super) fn has_starting(&self) -> bool {
        self.count(|state| state == STARTING) > 0
    }

    /// Whether a worker is idle, or about to be.
    pub(super) fn has_spare(&self) -> bool {
        self.states.iter().any(|state| matches!(state.load(SeqCst), STARTING | IDLE))
    }

    /// Whether all workers that there may be are busy.
    pub(super) fn is_short(&self) -> bool {
        self.states.iter().all(|state| matches!(state.load(SeqCst), BUSY | BETWEEN | LOGIN))
    }

    /// Whether a worker may begin with another request before it looks whether it is to end.
    pub(super) fn may_take_requests(&self) -> bool {
        self.states.iter().any(|state| matches!(state.load(SeqCst), STARTING | IDLE | BETWEEN))
    }

    /// The number of a worker that is to be started, if there may be another one.
    pub(super) fn starting(&self) -> Option<usize> {
        let number = self.states.iter().position(|state| state.load(SeqCst) == ABSENT)?;
        self.states[number].store(STARTING, SeqCst);
        Some(number)
    }

    pub(super) fn idle(&self, number: usize) {
        self.states[number].store(IDLE, SeqCst);
    }

    pub(super) fn absent(&self, number: usize) {
        self.states[number].store(ABSENT, SeqCst);
    }

    /// Notes where the connection is counted that the worker serves.
    pub(super) fn holds(&self, number: usize, counted_at: Option<u32>) {
        self.held[number].store(counted_at.map_or(0, |place| u64::from(place) + 1), SeqCst);
    }

    /// Notes how early the worker's connection gives way. Returns whether it is among the first.
    pub(super) fn is_first_to_go(&self, number: usize, evictable: Option<Evictable>) -> bool {
        let own = evictable.map_or(0, order);
        self.evictable[number].store(own, SeqCst);
        let all = self.evictable.iter().map(|other| other.load(SeqCst)).filter(|other| *other > 0);
        own > 0 && is_among_first(own, all)
    }

    /// Where a connection is counted that the worker of this number has not ended.
    pub(super) fn held(&self, number: usize) -> Option<u32> {
        self.held[number].load(SeqCst).checked_sub(1)?.try_into().ok()
    }

    /// The worker serves from now on. Returns whether it was the last idle one.
    pub(super) fn begin(&self, number: usize) -> bool {
        self.states[number].store(BUSY, SeqCst);
        !self.has_spare()
    }

    /// The worker waits for the next request of its connection, or has stopped to wait for it.
    pub(super) fn awaits_request(&self, number: usize, awaits: bool) {
        // Over HTTP/2 it may read on while it waits for a log-in.
        if self.states[number].load(SeqCst) != LOGIN {
            self.states[number].store(if awaits { BETWEEN } else { BUSY }, SeqCst);
        }
    }

    /// The worker waits for the check of a log-in, if not too many do. Returns whether it may.
    pub(super) fn begin_login(&self, number: usize) -> bool {
        self.states[number].store(LOGIN, SeqCst);
        let may_wait = self.count(|state| state == LOGIN) <= (self.states.len() / WORKERS_PER_LOGIN).max(1);
        if !may_wait {
            self.end_login(number);
        }
        may_wait
    }

    pub(super) fn end_login(&self, number: usize) {
        self.states[number].store(BUSY, SeqCst);
    }

    /// Removes an idle worker, unless it is the last idle one.
    pub(super) fn retire(&self, number: usize) -> bool {
        self.absent(number);
        // Another worker that has just begun may have relied on this one.
        let others = self.has_spare();
        if !others {
            self.idle(number);
        }
        others
    }
}

/// The order of connections that give way, as a number that is not 0.
fn order(evictable: Evictable) -> u64 {
    const KIND_SHIFT: u32 = 60;
    let (kind, since_ms) = match evictable {
        Evictable::Idle(since_ms) => (1, since_ms),
        Evictable::Unfinished(since_ms) => (2, since_ms),
        Evictable::Behind(since_ms) => (3, since_ms),
    };
    kind << KIND_SHIFT | since_ms.min((1 << KIND_SHIFT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_go_is_the_first_in_order_and_of_many_an_eighth_goes() {
        let board = Scoreboard::new(32).unwrap();
        assert!(!board.is_first_to_go(0, None) && board.is_first_to_go(0, Some(Evictable::Behind(1))));
        assert!(board.is_first_to_go(1, Some(Evictable::Unfinished(5))));
        assert!(!board.is_first_to_go(0, Some(Evictable::Behind(1))), "the other goes before it");
        assert!(!board.is_first_to_go(1, None) && board.is_first_to_go(0, Some(Evictable::Behind(1))));
        let evictable = |number: usize| Some(Evictable::Unfinished(number as u64));
        let mut first = Vec::new();
        for _ in 0..2 {
            first = (0..32).filter(|number| board.is_first_to_go(*number, evictable(*number))).collect();
        }
        assert_eq!(first, [0, 1, 2, 3]);
    }

    #[test]
    fn the_last_idle_worker_knows_and_does_not_retire() {
        let board = Scoreboard::new(3).unwrap();
        assert_eq!((board.starting(), board.starting()), (Some(0), Some(1)));
        assert_eq!(board.workers(), 2);
        board.idle(0);
        assert!(!board.begin(0), "one is about to be idle");
        board.idle(1);
        assert!(!board.retire(1) && board.begin(1), "it is the last");
        assert!(!board.is_short(), "there may be another one");
        assert_eq!((board.starting(), board.starting()), (Some(2), None));
        assert!(!board.is_short() && board.begin(2) && board.is_short() && board.busy() == 3);
        board.idle(0);
        board.idle(2);
        assert!(board.retire(0) && board.workers() == 2);
        assert_eq!(board.starting(), Some(0), "its number is free again");
    }

    #[test]
    fn a_quarter_of_the_workers_may_wait_for_log_ins() {
        let board = Scoreboard::new(8).unwrap();
        for number in 0..8 {
            board.starting();
            board.begin(number);
        }
        assert!(board.begin_login(0) && board.begin_login(3));
        assert!(!board.begin_login(5), "two wait");
        assert!(board.busy() == 8 && board.is_short() && !board.may_take_requests());
        board.awaits_request(3, false);
        assert!(!board.begin_login(5), "it has read on, and still waits");
        board.end_login(3);
        assert!(board.begin_login(5));
        let small = Scoreboard::new(1).unwrap();
        small.starting();
        assert!(small.begin_login(0), "one may always");
    }

    #[test]
    fn a_worker_between_two_requests_is_busy_and_may_take_another() {
        let board = Scoreboard::new(1).unwrap();
        board.starting();
        board.begin(0);
        assert!(!board.may_take_requests());
        board.awaits_request(0, true);
        assert!(board.may_take_requests() && board.is_short() && board.busy() == 1 && !board.has_spare());
        board.awaits_request(0, false);
        assert!(!board.may_take_requests() && board.is_short());
    }
}
