//! The lines of a class of networks: the one that had the least of the device's time comes next.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::network::ClientNetwork;

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<ClientNetwork, Line>,
    /// The networks that wait, the least served first, and of equals the one whose first job came first.
    turns: BTreeSet<(u64, u64, ClientNetwork)>,
    /// Networks without jobs stay.
    remembers: bool,
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
    pub(super) fn remembering() -> Self {
        Self { remembers: true, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    pub(super) fn knows(&self, network: ClientNetwork) -> bool {
        self.lines.contains_key(&network)
    }

    /// Remembers a network from now on. If there are as many, the one that waits for nothing and was served longest ago is forgotten.
    /// Returns whether there is room.
    pub(super) fn remember(&mut self, network: ClientNetwork, most: usize) -> bool {
        if self.lines.len() >= most {
            let idle = self.lines.iter().filter(|(_, line)| line.jobs.is_empty());
            let Some((&oldest, _)) = idle.min_by_key(|(_, line)| line.last) else { return false };
            self.lines.remove(&oldest);
        }
        self.lines.insert(network, Line::default());
        true
    }

    /// Forgets a network, and gives its jobs.
    pub(super) fn take(&mut self, network: ClientNetwork) -> VecDeque<u64> {
        let Some(line) = self.lines.remove(&network) else { return VecDeque::new() };
        self.turns.remove(&line.turn(network));
        self.jobs -= line.jobs.len();
        line.jobs
    }

    /// Adds a job to a network's line, if it is not its last one already.
    pub(super) fn push(&mut self, network: ClientNetwork, job: u64) -> bool {
        let now_ns = self.now_ns;
        let line = self.lines.entry(network).or_default();
        if line.jobs.back() == Some(&job) {
            return false;
        }
        line.jobs.push_back(job);
        self.jobs += 1;
        if line.jobs.len() == 1 {
            line.served_ns = line.served_ns.max(now_ns);
            self.turns.insert(line.turn(network));
        }
        true
    }

    /// The next job, and whose it is.
    pub(super) fn pop(&mut self) -> Option<(u64, ClientNetwork)> {
        let (served_ns, job, network) = self.turns.pop_first()?;
        self.now_ns = self.now_ns.max(served_ns);
        let line = self.lines.get_mut(&network)?;
        line.jobs.pop_front();
        line.last = job;
        self.jobs -= 1;
        self.goes_on(network);
        Some((job, network))
    }

    /// Takes the newest job of a line out.
    pub(super) fn shed(&mut self, network: ClientNetwork) -> Option<u64> {
        let line = self.lines.get_mut(&network)?;
        self.turns.remove(&line.turn(network));
        let job = line.jobs.pop_back()?;
        self.jobs -= 1;
        self.goes_on(network);
        Some(job)
    }

    /// A network that has had a turn, or lost a job, waits for its next one.
    fn goes_on(&mut self, network: ClientNetwork) {
        let line = self.lines.get(&network).filter(|line| !line.jobs.is_empty());
        match line.map(|line| line.turn(network)) {
            Some(turn) => _ = self.turns.insert(turn),
            None if !self.remembers => _ = self.lines.remove(&network),
            None => {}
        }
    }

    /// Something was done for a network of this class, which has this percentage of the time.
    pub(super) fn charge(&mut self, network: ClientNetwork, more_ns: i64, percent: u8) {
        self.served_ns = self.served_ns.saturating_add_signed(more_ns * 100 / i64::from(percent.max(1)));
        let Some(line) = self.lines.get_mut(&network) else { return };
        let waits = self.turns.remove(&line.turn(network));
        line.served_ns = line.served_ns.saturating_add_signed(more_ns).max(self.now_ns);
        if waits {
            self.turns.insert(line.turn(network));
        }
    }

    pub(super) fn length(&self, network: ClientNetwork) -> usize {
        self.lines.get(&network).map_or(0, |line| line.jobs.len())
    }

    /// Of those that wait.
    pub(super) fn longest(&self) -> Option<(ClientNetwork, usize)> {
        let lengths = self.turns.iter().map(|(.., network)| (*network, self.length(*network)));
        lengths.max_by_key(|(_, length)| *length)
    }
}

impl Line {
    /// Its place among the turns, if it has jobs.
    fn turn(&self, network: ClientNetwork) -> (u64, u64, ClientNetwork) {
        (self.served_ns, self.jobs.front().copied().unwrap_or_default(), network)
    }
}
