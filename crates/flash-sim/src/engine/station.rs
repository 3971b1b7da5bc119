//! Servers behind one waiting line.

use super::level::Level;
use super::time::Time;
use super::wait_queue::{Links, WaitQueue};

/// A number of equal servers, first come first served. How long a service takes is its owner's affair.
#[derive(Clone, Debug)]
pub struct Station {
    servers: u64,
    busy: Level,
    line: WaitQueue,
    served: u64,
}

impl Station {
    pub fn new(servers: u64) -> Station {
        Station { servers, busy: Level::default(), line: WaitQueue::default(), served: 0 }
    }

    /// A customer arrives. True if its service begins at once.
    pub fn arrive(&mut self, links: &mut Links, who: u32, now: Time) -> bool {
        if self.busy.value() < self.servers {
            self.busy.add(1, now);
            return true;
        }
        self.line.push(links, who, now);
        false
    }

    /// A customer has been served. Returns the customer whose service begins now.
    pub fn depart(&mut self, links: &mut Links, now: Time) -> Option<u32> {
        self.served += 1;
        let next = self.line.pop(links, now);
        if next.is_none() {
            self.busy.remove(1, now);
        }
        next
    }

    pub fn reset(&mut self, now: Time) {
        self.busy.reset(now);
        self.line.reset(now);
        self.served = 0;
    }

    pub fn line(&self) -> &WaitQueue {
        &self.line
    }

    pub fn served(&self) -> u64 {
        self.served
    }

    /// The part of the servers' time that they were busy.
    pub fn utilisation(&self, now: Time) -> f64 {
        self.busy.mean(now) / self.servers as f64
    }

    /// In nanoseconds, over everybody served, those who did not wait included.
    pub fn wait_mean(&self) -> f64 {
        self.line.waited() as f64 / self.served.max(1) as f64
    }
}
