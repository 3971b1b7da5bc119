//! Waiting lines.

use super::level::Level;
use super::time::Time;

/// The end of a queue.
const END: u32 = u32::MAX;

/// The links of all customers of one kind: one entry each. No customer waits in two queues at once.
#[derive(Debug)]
pub struct Links {
    entries: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    since: Time,
}

/// First come, first served, with statistics.
#[derive(Clone, Debug)]
pub struct WaitQueue {
    first: u32,
    last: u32,
    length: Level,
    left: u64,
    waited: u64,
    reset_at: Time,
}

impl Links {
    pub fn new(number: usize) -> Links {
        Links { entries: vec![Link { next: END, since: 0 }; number] }
    }
}

impl Default for WaitQueue {
    fn default() -> WaitQueue {
        WaitQueue { first: END, last: END, length: Level::default(), left: 0, waited: 0, reset_at: 0 }
    }
}

impl WaitQueue {
    pub fn is_empty(&self) -> bool {
        self.first == END
    }

    pub fn len(&self) -> u64 {
        self.length.value()
    }

    /// Joins at the end.
    pub fn push(&mut self, links: &mut Links, who: u32, now: Time) {
        links.entries[who as usize] = Link { next: END, since: now };
        match self.last {
            END => self.first = who,
            last => links.entries[last as usize].next = who,
        }
        self.last = who;
        self.length.add(1, now);
    }

    /// The first one leaves.
    pub fn pop(&mut self, links: &mut Links, now: Time) -> Option<u32> {
        if self.first == END {
            return None;
        }
        let who = self.first;
        let link = links.entries[who as usize];
        self.first = link.next;
        if link.next == END {
            self.last = END;
        }
        self.length.remove(1, now);
        self.left += 1;
        self.waited += now - link.since.max(self.reset_at);
        Some(who)
    }

    /// Forgets the past; everybody stays, and begins to wait now as far as statistics go.
    pub fn reset(&mut self, now: Time) {
        self.length.reset(now);
        (self.left, self.waited, self.reset_at) = (0, 0, now);
    }

    pub fn length_mean(&self, now: Time) -> f64 {
        self.length.mean(now)
    }

    /// In nanoseconds that anybody was in it, added up.
    pub fn area(&self, now: Time) -> u64 {
        self.length.area(now)
    }

    /// How many have left, and how long they waited together, in nanoseconds.
    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// Whether what was counted over time equals what was counted person by person, to the nanosecond: Little's law.
    pub fn obeys_little(&self, links: &Links, now: Time) -> bool {
        let mut waited = self.waited;
        let mut at = self.first;
        while at != END {
            let link = links.entries[at as usize];
            waited += now - link.since.max(self.reset_at);
            at = link.next;
        }
        waited == self.length.area(now)
    }
}
