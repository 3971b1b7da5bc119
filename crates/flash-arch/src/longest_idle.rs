//! Which connection has been idle for longest. It is asked when a new connection finds all permits taken.
//!
//! Nothing is kept up to date while connections come and go. A look at all connections remembers, in order, the half
//! that has been idle for longest. So each look serves many new connections.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct LongestIdle {
    /// Since when connections were idle, in milliseconds, and their tokens, sorted.
    remembered: VecDeque<(u64, u64)>,
    next_look_ms: u64,
}

/// For each this many connections, the next look at all waits a millisecond. So looks never take much of the time.
const LOOKED_AT_PER_MS: usize = 1_000;

impl LongestIdle {
    /// The token of the connection that has been idle for longest, if one is idle. `all` yields since when each
    /// connection is idle, or `None`, and its token. `idle_since_ms` returns that time for a token.
    pub(crate) fn find(
        &mut self,
        now_ms: u64,
        all: impl Iterator<Item = (Option<u64>, u64)>,
        idle_since_ms: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        if let Some(token) = self.recall(&idle_since_ms) {
            return Some(token);
        }
        if now_ms < self.next_look_ms {
            return None;
        }
        let mut looked_at = 0;
        let all = all.inspect(|_| looked_at += 1);
        let mut idle: Vec<(u64, u64)> = all.filter_map(|(since, token)| Some((since?, token))).collect();
        self.next_look_ms = now_ms + (looked_at / LOOKED_AT_PER_MS) as u64;
        if idle.len() > 1 {
            let half = idle.len() / 2;
            idle.select_nth_unstable(half);
            idle.truncate(half + 1);
            idle.sort_unstable();
        }
        self.remembered = idle.into();
        self.recall(&idle_since_ms)
    }

    /// The first remembered connection that is still idle. One that was busy meanwhile is no longer among the longest
    /// idle.
    fn recall(&mut self, idle_since_ms: &impl Fn(u64) -> Option<u64>) -> Option<u64> {
        std::iter::from_fn(|| self.remembered.pop_front())
            .find(|&(since, token)| idle_since_ms(token) == Some(since))
            .map(|(_, token)| token)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{Random, each_seed};

    #[test]
    fn the_first_found_is_the_one_that_has_been_idle_for_longest() {
        each_seed(1..50, |seed| {
            let mut random = Random::new(seed);
            let mut longest = LongestIdle::default();
            // By token; `None` for a busy connection.
            let mut connections = BTreeMap::new();
            for now in 0..1_000 {
                match random.within(0..4) {
                    0 => drop(connections.insert(now, Some(now))),
                    1 if !connections.is_empty() => {
                        let tokens: Vec<u64> = connections.keys().copied().collect();
                        let state = if random.chance(50) { Some(now) } else { None };
                        connections.insert(*random.pick(&tokens), state);
                    }
                    _ => {
                        let all = connections.iter().map(|(&token, &since)| (since, token));
                        let found = longest.find(now, all, |token| *connections.get(&token)?);
                        let expected =
                            connections.iter().filter_map(|(&token, since)| Some(((*since)?, token))).min();
                        assert_eq!(found, expected.map(|(_, token)| token));
                        found.map(|token| connections.remove(&token));
                    }
                }
            }
        });
    }

    #[test]
    fn many_are_found_in_one_look_and_looks_are_rare() {
        let looked_at = Cell::new(0);
        let all = |count: u64| {
            (0..count).map(|token| (Some(token), token)).inspect(|_| looked_at.set(looked_at.get() + 1))
        };
        let mut longest = LongestIdle::default();
        for token in 0..5_000 {
            assert_eq!(longest.find(0, all(10_000), Some), Some(token));
        }
        assert_eq!(looked_at.get(), 10_000);
        let none =
            || (0..10_000_u64).map(|token| (None, token)).inspect(|_| looked_at.set(looked_at.get() + 1));
        let mut longest = LongestIdle::default();
        looked_at.set(0);
        for now_ms in 0..100 {
            assert_eq!(longest.find(now_ms, none(), |_| None), None);
        }
        assert_eq!(looked_at.get(), 100_000, "ten looks in a hundred milliseconds");
    }
}
