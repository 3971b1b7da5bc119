//! The fair queue of the jobs that wait for a helper of one device.
//!
//! What is shared is the device's time, and not the number of jobs. Revalidations of cached entries have a lane of their own, which
//! takes turns with all other jobs: a flood of new names cannot make cached responses old. For other jobs each network of clients has a
//! line, and the network that had the least of the time comes next. So a flood from one waits behind the first job of every other.
//! Networks are new until some of their jobs were done. All new ones together have a share of the time while others wait,
//! however many addresses they come from. A job that several ask for waits in the line of each, and is done when the first of
//! these lines reaches it.

mod lines;
mod network;
mod newcomers;

use std::collections::{HashMap, VecDeque};

use self::lines::Lines;
pub(crate) use self::network::ClientNetwork;
use self::newcomers::Newcomers;

/// Where a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// With the revalidations of cached entries.
    Looks,
    Client(ClientNetwork),
}

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    waiting: HashMap<u64, Waiting<T>>,
    /// Numbers of jobs. A number is skipped if another line has reached its job.
    looks: VecDeque<u64>,
    new: Lines,
    known: Lines,
    newcomers: Newcomers,
    /// What the class had that was served last. One that waits again counts as having had no less.
    now_ns: u64,
    looks_are_next: bool,
    /// The time of a job, on average.
    expected_ns: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    task: T,
    /// How often its number is in lines and lanes.
    places: usize,
}

/// To whom a job is charged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    /// The class has this percentage. None for revalidations.
    to: Option<(Class, ClientNetwork, u8)>,
    expected_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    New,
    Known,
}

/// So many networks are remembered while nothing of theirs waits.
const KNOWN_MAX: usize = 4096;
/// Until the first job has ended.
const EXPECTED_NS: u64 = 1_000_000;
/// The average is over about so many jobs.
const AVERAGE_OF: i64 = 16;

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            looks: VecDeque::new(),
            new: Lines::default(),
            known: Lines::remembering(),
            newcomers: Newcomers::default(),
            now_ns: 0,
            looks_are_next: true,
            expected_ns: EXPECTED_NS,
        }
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a job under a number that no other job has.
    pub(crate) fn push(&mut self, number: u64, task: T, lane: Lane) {
        self.waiting.insert(number, Waiting { task, places: 0 });
        self.stand(number, lane);
    }

    /// Adds a waiting job to this lane too. Ignores a job that is under way.
    pub(crate) fn stand(&mut self, number: u64, lane: Lane) {
        if !self.waiting.contains_key(&number) {
            return;
        }
        let is_added = match lane {
            Lane::Looks => {
                self.looks.push_back(number);
                true
            }
            Lane::Client(network) => self.line_up(self.class_of(network), network, number),
        };
        if let Some(waiting) = self.waiting.get_mut(&number) {
            waiting.places += usize::from(is_added);
        }
    }

    fn class_of(&self, network: ClientNetwork) -> Class {
        if self.known.knows(network) { Class::Known } else { Class::New }
    }

    /// Adds a job to a line of this class. Returns whether it was not there already.
    fn line_up(&mut self, class: Class, network: ClientNetwork, number: u64) -> bool {
        let now_ns = self.now_ns;
        let lines = self.lines(class);
        if lines.is_empty() {
            lines.served_ns = lines.served_ns.max(now_ns);
        }
        lines.push(network, number)
    }

    /// The next job. While others wait, new networks have this percentage of the time. What the job takes is to be charged.
    pub(crate) fn pop(&mut self, share_of_new: u8) -> Option<(T, Charge)> {
        let popped = match self.looks_are_next {
            true => self.pop_look().or_else(|| self.pop_in_turn(share_of_new)),
            false => self.pop_in_turn(share_of_new).or_else(|| self.pop_look()),
        };
        self.looks_are_next = !self.looks_are_next;
        popped
    }

    fn pop_look(&mut self) -> Option<(T, Charge)> {
        while let Some(number) = self.looks.pop_front() {
            if let Some(waiting) = self.waiting.remove(&number) {
                return Some((waiting.task, Charge { to: None, expected_ns: self.expected_ns }));
            }
        }
        None
    }

    fn pop_in_turn(&mut self, share_of_new: u8) -> Option<(T, Charge)> {
        loop {
            let class = match (self.new.is_empty(), self.known.is_empty()) {
                (false, false) if self.new.served_ns < self.known.served_ns => Class::New,
                (_, false) => Class::Known,
                (_, true) => Class::New,
            };
            let lines = self.lines(class);
            let served_ns = lines.served_ns;
            let (number, network) = lines.pop()?;
            self.now_ns = self.now_ns.max(served_ns);
            let waiting = self.waiting.remove(&number);
            if waiting.is_some() && class == Class::New {
                self.serve_new(network);
            }
            // Else another line has reached it before.
            if let Some(Waiting { task, .. }) = waiting {
                let share = if class == Class::New { share_of_new } else { 100 - share_of_new };
                let charge = Charge { to: Some((class, network, share)), expected_ns: self.expected_ns };
                self.add(charge, self.expected_ns.cast_signed());
                return Some((task, charge));
            }
        }
    }

    /// A job of a new network was taken. One that is known from now on takes its other jobs along.
    fn serve_new(&mut self, network: ClientNetwork) {
        if self.newcomers.count(network) && self.known.remember(network, KNOWN_MAX) {
            for number in self.new.take(network) {
                self.line_up(Class::Known, network, number);
            }
        }
    }

    /// A job that was taken has needed the device for so long.
    pub(crate) fn charge(&mut self, charge: Charge, spent_ns: u64) {
        self.add(charge, spent_ns.cast_signed() - charge.expected_ns.cast_signed());
        let more_ns = spent_ns.cast_signed() - self.expected_ns.cast_signed();
        self.expected_ns = self.expected_ns.saturating_add_signed(more_ns / AVERAGE_OF);
    }

    fn add(&mut self, Charge { to, .. }: Charge, more_ns: i64) {
        if let Some((class, network, share)) = to {
            self.lines(class).charge(network, more_ns, share);
        }
    }

    fn lines(&mut self, class: Class) -> &mut Lines {
        match class {
            Class::New => &mut self.new,
            Class::Known => &mut self.known,
        }
    }

    /// How many revalidations wait.
    pub(crate) fn looks(&self) -> usize {
        self.looks.len()
    }

    /// Sheds a job for one of this lane, which would make the queue too long: the newest of the network with the longest line, if that is
    /// longer than the lane's own. All new networks together count as one. Never sheds a revalidation.
    pub(crate) fn shed_for(&mut self, lane: Lane) -> Option<T> {
        loop {
            let known = self.known.longest();
            let of_new = self.new.jobs;
            let (own, own_of_new) = match lane {
                Lane::Looks => (0, None),
                Lane::Client(network) => match self.class_of(network) {
                    Class::Known => (self.known.length(network), None),
                    Class::New => (of_new, Some(self.new.length(network))),
                },
            };
            let (class, network) = match known {
                Some((network, length)) if length > own && length >= of_new => (Class::Known, network),
                // Among themselves, the one with the most.
                _ => {
                    let (network, length) = self.new.longest()?;
                    if own_of_new.map_or(of_new <= own, |own| length <= own) {
                        return None;
                    }
                    (Class::New, network)
                }
            };
            let Some(number) = self.lines(class).shed(network) else { continue };
            let Some(waiting) = self.waiting.get_mut(&number) else { continue };
            waiting.places -= 1;
            // Another client waits for the job as well.
            if waiting.places == 0 {
                return self.waiting.remove(&number).map(|waiting| waiting.task);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &T> {
        self.waiting.values().map(|waiting| &waiting.task)
    }
}

#[cfg(test)]
mod tests;
