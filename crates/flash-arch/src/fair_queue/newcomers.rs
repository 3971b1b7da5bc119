//! Which networks are known: those of whom some jobs were done within a while.

use std::collections::{HashMap, VecDeque};

use super::network::ClientNetwork;

/// Networks that few jobs came from.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    jobs: HashMap<ClientNetwork, u32>,
    /// The oldest first.
    order: VecDeque<ClientNetwork>,
}

/// From so many jobs on a network is known.
pub(super) const KNOWN_FROM: u32 = 8;
/// So many others may come meanwhile.
const NEWCOMERS_MAX: usize = 16_384;

impl Newcomers {
    /// Counts a job. Returns whether the network is known from now on.
    pub(super) fn count(&mut self, network: ClientNetwork) -> bool {
        let jobs = self.jobs.entry(network).or_insert_with(|| {
            self.order.push_back(network);
            0
        });
        *jobs += 1;
        let is_known = *jobs >= KNOWN_FROM;
        if self.order.len() > NEWCOMERS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.jobs.remove(&oldest);
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_known_once_it_has_come_often_enough() {
        let mut newcomers = Newcomers::default();
        let counted: Vec<bool> = (0..=KNOWN_FROM).map(|_| newcomers.count(ClientNetwork::V4(1))).collect();
        assert_eq!(counted.iter().position(|known| *known), Some(KNOWN_FROM as usize - 1));
        assert!(counted.ends_with(&[true; 2]), "nobody had room for it");
    }

    #[test]
    fn a_million_that_come_twice_are_never_known_and_take_little_memory() {
        let mut newcomers = Newcomers::default();
        for network in (0..1_000_000).flat_map(|network| [network; 2]) {
            assert!(!newcomers.count(ClientNetwork::V4(network)));
        }
        assert!(newcomers.jobs.len() <= NEWCOMERS_MAX && newcomers.order.len() <= NEWCOMERS_MAX);
    }
}
