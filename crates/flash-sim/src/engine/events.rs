//! What is to happen, in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::time::Time;

/// The future events. Events of one moment happen in the order in which they were scheduled.
///
/// A closed system has about as many events as stations: some dozens. So the heap fits in a few cache lines. Calendar queues
/// pay off from thousands of events on.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    announced: u64,
    now: Time,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Events<E> {
    pub fn with_capacity(capacity: usize) -> Events<E> {
        Events { heap: BinaryHeap::with_capacity(capacity), announced: 0, now: 0 }
    }

    /// The moment of the last event taken.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Announces an event that happens after so long.
    pub fn after(&mut self, delay: Time, event: E) {
        self.announced += 1;
        self.heap.push(Entry { at: self.now + delay, number: self.announced, event });
    }

    /// Time moves on to the next event.
    pub fn advance(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }

    /// How many have been announced.
    pub fn announced(&self) -> u64 {
        self.announced
    }
}

/// The heap hands out its greatest: the earliest.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}
