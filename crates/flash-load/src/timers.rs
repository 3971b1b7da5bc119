//! What a thread has to look at again later, by time. Alarms are never taken back: whoever is rung looks whether there is
//! still something to do, which is cheaper than to keep the heap exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The oldest request of the connection may have waited too long.
    Deadline,
    /// The client has thought, or may send or receive more on its slow line.
    Resume,
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize, Alarm)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, place: usize, alarm: Alarm) {
        self.heap.push(Reverse((at, place, alarm)));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// One that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(usize, Alarm)> {
        let Reverse((at, place, alarm)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((place, alarm))
    }
}
