//! The fair queue of the jobs that wait for a helper of one device.
//!
//! Revalidations of cached entries have a lane of their own, which takes turns with all other jobs. So a flood of new
//! names cannot make cached answers old. Each client has a line of its own for other jobs, and the lines take turns.
//! So a flood from one client waits behind the first job of every other client. A job that several clients ask for
//! waits in the line of each, and is done when the first of these lines reaches it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use flash_core::record::Peer;

/// The client that a job is done for: an IPv4 address, or an IPv6 network of 64 bits. All clients of Unix sockets are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientNetwork(u64);

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
    lines: HashMap<ClientNetwork, VecDeque<u64>>,
    /// The clients whose line is not empty, the next one first.
    turns: VecDeque<ClientNetwork>,
    looks_are_next: bool,
}

#[derive(Debug)]
struct Waiting<T> {
    task: T,
    /// How often its number is in lines and lanes.
    places: usize,
}

impl ClientNetwork {
    pub(crate) fn of(peer: Peer) -> Self {
        match peer {
            Peer::Unix => Self::default(),
            Peer::Inet(address) => match address.ip() {
                IpAddr::V4(ip) => Self(1 << 63 | u64::from(ip.to_bits())),
                IpAddr::V6(ip) => Self((ip.to_bits() >> 64) as u64),
            },
        }
    }

    /// Of a driver that numbers its clients itself.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            looks: VecDeque::new(),
            lines: HashMap::new(),
            turns: VecDeque::new(),
            looks_are_next: true,
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
        let Some(waiting) = self.waiting.get_mut(&number) else { return };
        let line = match lane {
            Lane::Looks => &mut self.looks,
            Lane::Client(client) => self.lines.entry(client).or_insert_with(|| {
                self.turns.push_back(client);
                VecDeque::new()
            }),
        };
        if line.back() != Some(&number) {
            line.push_back(number);
            waiting.places += 1;
        }
    }

    /// The next job.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let task = match self.looks_are_next {
            true => self.pop_look().or_else(|| self.pop_in_turn()),
            false => self.pop_in_turn().or_else(|| self.pop_look()),
        };
        self.looks_are_next = !self.looks_are_next;
        task
    }

    fn pop_look(&mut self) -> Option<T> {
        while let Some(number) = self.looks.pop_front() {
            if let Some(waiting) = self.waiting.remove(&number) {
                return Some(waiting.task);
            }
        }
        None
    }

    fn pop_in_turn(&mut self) -> Option<T> {
        while let Some(client) = self.turns.pop_front() {
            let line = self.lines.get_mut(&client)?;
            let number = line.pop_front();
            if line.is_empty() {
                self.lines.remove(&client);
            } else {
                self.turns.push_back(client);
            }
            if let Some(waiting) = number.and_then(|number| self.waiting.remove(&number)) {
                return Some(waiting.task);
            }
        }
        None
    }

    /// How many revalidations wait.
    pub(crate) fn looks(&self) -> usize {
        self.looks.len()
    }

    /// Sheds the newest job of the client with the longest line, if that line is longer than the one of `lane`. Never
    /// sheds a revalidation.
    pub(crate) fn shed_for(&mut self, lane: Lane) -> Option<T> {
        let own = match lane {
            Lane::Looks => 0,
            Lane::Client(client) => self.lines.get(&client).map_or(0, VecDeque::len),
        };
        loop {
            let (&client, line) = self.lines.iter_mut().max_by_key(|(_, line)| line.len())?;
            if line.len() <= own {
                return None;
            }
            let number = line.pop_back();
            if line.is_empty() {
                self.lines.remove(&client);
                self.turns.retain(|turn| *turn != client);
            }
            let Some(number) = number else { continue };
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
mod tests {
    use super::*;

    const A: Lane = Lane::Client(ClientNetwork(1));
    const B: Lane = Lane::Client(ClientNetwork(2));

    fn queue(jobs: &[(u64, Lane)]) -> FairQueue<u64> {
        let mut queue = FairQueue::default();
        jobs.iter().for_each(|&(number, lane)| queue.push(number, number, lane));
        queue
    }

    fn rest(queue: &mut FairQueue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn a_flood_of_one_client_waits_behind_the_first_job_of_another() {
        let mut queue = queue(&[(1, A), (2, A), (3, A), (4, A), (5, B), (6, B)]);
        assert_eq!(rest(&mut queue), [1, 5, 2, 6, 3, 4]);
        assert_eq!((queue.lines.len(), queue.turns.len(), queue.len()), (0, 0, 0));
    }

    #[test]
    fn second_looks_take_turns_with_everything_else() {
        let mut queue = queue(&[(1, A), (2, A), (3, A), (4, Lane::Looks), (5, Lane::Looks)]);
        assert_eq!(rest(&mut queue), [4, 1, 5, 2, 3]);
    }

    #[test]
    fn a_job_that_two_ask_for_is_done_when_the_first_line_reaches_it() {
        let mut queue = queue(&[(1, A), (2, A), (3, A)]);
        queue.stand(3, B);
        queue.stand(3, B);
        queue.stand(9, B);
        assert_eq!(rest(&mut queue), [1, 3, 2]);
        assert_eq!((queue.lines.len(), queue.turns.len()), (0, 0));
    }

    #[test]
    fn a_full_queue_gives_up_the_newest_job_of_the_longest_line() {
        let mut queue = queue(&[(1, A), (2, A), (3, A), (4, B), (5, Lane::Looks)]);
        assert_eq!(queue.shed_for(A), None, "the client that floods is refused itself");
        assert_eq!(queue.shed_for(B), Some(3));
        assert_eq!(queue.shed_for(B), Some(2));
        assert_eq!(queue.shed_for(B), None, "the lines are equally long");
        assert!(queue.shed_for(Lane::Looks).is_some());
        assert!(queue.shed_for(Lane::Looks).is_some());
        assert_eq!(queue.shed_for(Lane::Looks), None, "second looks stay");
        assert_eq!(rest(&mut queue), [5]);
    }

    #[test]
    fn what_another_client_waits_for_is_not_given_up() {
        let mut queue = queue(&[(1, A), (2, A), (3, A)]);
        queue.stand(3, B);
        assert_eq!(queue.shed_for(Lane::Client(ClientNetwork(7))), Some(2));
        assert_eq!(rest(&mut queue), [1, 3]);
    }

    #[test]
    fn clients_are_networks() {
        let client = |text: &str| ClientNetwork::of(Peer::Inet(text.parse().unwrap()));
        assert_eq!(client("192.0.2.1:1"), client("192.0.2.1:2"));
        assert_ne!(client("192.0.2.1:1"), client("192.0.2.2:1"));
        assert_eq!(client("[2001:db8::1]:1"), client("[2001:db8::2]:1"));
        assert_ne!(client("[2001:db8::1]:1"), client("[2001:db8:0:1::1]:1"));
        assert_ne!(client("192.0.2.1:1"), ClientNetwork::of(Peer::Unix));
    }
}
