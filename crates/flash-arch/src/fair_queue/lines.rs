//! The lines of a class of networks: the one that had the least of the device's time comes next.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::network::ClientNetwork;

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<ClientNetwork, Line>,
    /// The networks that wait, the least served first.
    turns: BTreeSet<(u64, ClientNetwork)>,
    /// What the network had that was served last. Who comes back counts as having had no less, so nobody saves time up.
    now_ns: u64,
    /// Numbers in all lines.
    pub(super) jobs: usize,
    /// What the whole class had, so much the more the smaller its share is.
    pub(super) served_ns: u64,
}

#[derive(Debug, Default)]
struct Line {
    jobs: VecDeque<u64>,
    served_ns: u64,
    /// The number of the job that was taken last.
    last: u64,
}

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    pub(super) fn knows(&self, network: ClientNetwork) -> bool {
        self.lines.contains_key(&network)
    }

    /// Remembers a network also while its line is empty. With as many as that, the one that waits for nothing and was served longest ago
    /// is forgotten. Returns whether there is room.
    pub(super) fn remember(&mut self, network: ClientNetwork, most: usize) -> bool {
        if self.lines.len() >= most {
            let idle = self.lines.iter().filter(|(_, line)| line.jobs.is_empty());
            let Some((&oldest, _)) = idle.min_by_key(|(_, line)| line.last) else { return false };
            self.lines.remove(&oldest);
        }
        self.lines.insert(network, Line { served_ns: self.now_ns, ..Line::default() });
        true
    }

    /// Forgets a network, and gives its jobs.
    pub(super) fn take(&mut self, network: ClientNetwork) -> VecDeque<u64> {
        let Some(line) = self.lines.remove(&network) else { return VecDeque::new() };
        self.turns.remove(&(line.served_ns, network));
        self.jobs -= line.jobs.len();
        line.jobs
    }

    pub(super) fn forget_if_empty(&mut self, network: ClientNetwork) {
        if self.lines.get(&network).is_some_and(|line| line.jobs.is_empty()) {
            self.lines.remove(&network);
        }
    }

    /// Adds a job to a network's line, if it is not its last one already.
    pub(super) fn push(&mut self, network: ClientNetwork, job: u64) -> bool {
        let line = self.lines.entry(network).or_default();
        if line.jobs.back() == Some(&job) {
            return false;
        }
        if line.jobs.is_empty() {
            line.served_ns = line.served_ns.max(self.now_ns);
            self.turns.insert((line.served_ns, network));
        }
        line.jobs.push_back(job);
        self.jobs += 1;
        true
    }

    /// The next job, and whose it is.
    pub(super) fn pop(&mut self) -> Option<(u64, ClientNetwork)> {
        let (served_ns, network) = self.turns.pop_first()?;
        self.now_ns = served_ns;
        let line = self.lines.get_mut(&network)?;
        let job = line.jobs.pop_front()?;
        line.last = job;
        self.jobs -= 1;
        if !line.jobs.is_empty() {
            self.turns.insert((served_ns, network));
        }
        Some((job, network))
    }

    /// Something was done for a network of this class, which has this percentage of the time.
    pub(super) fn charge(&mut self, network: ClientNetwork, more_ns: i64, percent: u8) {
        self.served_ns = self.served_ns.saturating_add_signed(more_ns * 100 / i64::from(percent.max(1)));
        let Some(line) = self.lines.get_mut(&network) else { return };
        let waits = self.turns.remove(&(line.served_ns, network));
        line.served_ns = line.served_ns.saturating_add_signed(more_ns);
        if waits {
            self.turns.insert((line.served_ns, network));
        }
    }

    pub(super) fn length(&self, network: ClientNetwork) -> usize {
        self.lines.get(&network).map_or(0, |line| line.jobs.len())
    }

    pub(super) fn longest(&self) -> Option<(ClientNetwork, usize)> {
        let lengths = self.lines.iter().map(|(network, line)| (*network, line.jobs.len()));
        lengths.max_by_key(|(_, length)| *length).filter(|(_, length)| *length > 0)
    }

    /// Takes the newest job of a line out.
    pub(super) fn shed(&mut self, network: ClientNetwork) -> Option<u64> {
        let line = self.lines.get_mut(&network)?;
        let job = line.jobs.pop_back()?;
        self.jobs -= 1;
        if line.jobs.is_empty() {
            self.turns.remove(&(line.served_ns, network));
        }
        Some(job)
    }
}
