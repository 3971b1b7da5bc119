//! Which connection gives way to a new one. It is asked when all permits are taken, and when too many handshakes are unfinished.
//!
//! The client that could give most loses first, so one that opens many connections closes its own. Of its connections the least wanted
//! goes, as [`Evictable`] says. Unfinished ones go before idle ones while they are more than half of all.
//!
//! Nothing is kept up to date while connections come and go. A look at all connections remembers, in order, the half
//! that would go first. So each look serves many new connections.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use flash_core::server::Settings;
use flash_core::{Connection, Context, Evictable};

use crate::connections::socket;
use crate::connections::transport::Transport;
use crate::fair_queue::ClientNetwork;

#[derive(Debug, Default)]
pub(crate) struct Victims {
    /// With their tokens, the first one first.
    remembered: VecDeque<(Evictable, u64)>,
    next_look_ms: u64,
}

/// A connection that is looked at: whether it may be closed, its client, and its token.
pub(crate) type Candidate = (Option<Evictable>, ClientNetwork, u64);

/// For each this many connections, the next look at all waits a millisecond. So looks never take much of the time.
const LOOKED_AT_PER_MS: usize = 1_000;

impl Victims {
    /// The connection that goes first, if one may go. `all` yields all connections. `evictable` returns for a token whether its
    /// connection may be closed now.
    pub(crate) fn find(
        &mut self,
        now_ms: u64,
        all: impl Iterator<Item = Candidate>,
        evictable: impl Fn(u64) -> Option<Evictable>,
    ) -> Option<(Evictable, u64)> {
        if let Some(found) = self.recall(&evictable) {
            return Some(found);
        }
        if now_ms < self.next_look_ms {
            return None;
        }
        let mut looked_at = 0;
        let all = all.inspect(|_| looked_at += 1);
        let candidates = all.filter_map(|(evictable, client, token)| Some((client, evictable?, token)));
        let candidates: Vec<(ClientNetwork, Evictable, u64)> = candidates.collect();
        self.next_look_ms = now_ms + (looked_at / LOOKED_AT_PER_MS) as u64;
        self.remembered = in_order(candidates, looked_at).into();
        self.recall(&evictable)
    }

    /// The first remembered connection that is as it was. One that has done something meanwhile is no longer among the first.
    fn recall(&mut self, evictable: &impl Fn(u64) -> Option<Evictable>) -> Option<(Evictable, u64)> {
        std::iter::from_fn(|| self.remembered.pop_front())
            .find(|&(remembered, token)| evictable(token) == Some(remembered))
    }
}

/// The half of the connections that goes first. There are `all` with those that stay.
fn in_order(candidates: Vec<(ClientNetwork, Evictable, u64)>, all: usize) -> Vec<(Evictable, u64)> {
    let is_unfinished = |evictable: &Evictable| matches!(evictable, Evictable::Unfinished(_));
    let mut unfinished: Vec<_> = candidates
        .iter()
        .filter(|(_, evictable, _)| is_unfinished(evictable))
        .map(|of| (of.1, of.2))
        .collect();
    unfinished.sort_unstable();
    // The youngest of those that are too many.
    let surplus = unfinished.len().saturating_sub(all.div_ceil(2));
    let last = surplus.checked_sub(1).map(|last| unfinished[last]);
    let mut ranked: Vec<_> = candidates
        .into_iter()
        .map(|(client, evictable, token)| {
            let is_surplus = is_unfinished(&evictable) && last.is_some_and(|last| (evictable, token) <= last);
            (client, (!is_surplus, evictable, token))
        })
        .collect();
    // Each client's own, the one that goes last first.
    ranked.sort_unstable_by_key(|&(client, order)| (client, Reverse(order)));
    let (mut before, mut rank) = (None, 0_u32);
    let mut ranked: Vec<_> = ranked
        .into_iter()
        .map(|(client, order)| {
            rank = if before.replace(client) == Some(client) { rank + 1 } else { 0 };
            (Reverse(rank), order)
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(ranked.len() / 2 + 1);
    ranked.into_iter().map(|(_, (_, evictable, token))| (evictable, token)).collect()
}

/// Whether a connection is among the first to go: one in eight of `all`, which include it. Workers that block know of new
/// connections by themselves, some at a time.
pub(crate) fn is_among_first<T: Ord>(own: T, all: impl Iterator<Item = T>) -> bool {
    let (mut count, mut before) = (0, 0);
    for other in all {
        count += 1;
        before += usize::from(other < own);
    }
    before < (count / 8).max(1)
}

/// Whether a connection may be closed for a new one, and how early. The same for every architecture.
pub(crate) fn evictable(
    connection: &Connection,
    transport: &Transport,
    socket: &OwnedFd,
    now_ms: u64,
    settings: &Settings,
) -> Option<Evictable> {
    // A handshake that waits for its turn waits for the server.
    (!transport.has_step())
        .then(|| connection.evictable(now_ms, settings, || socket::unacknowledged(socket)))?
}

/// Ends a connection for a new one.
pub(crate) fn evict(evicted: Evictable, connection: &mut Connection, socket: &OwnedFd, cx: &mut Context<'_>) {
    if matches!(evicted, Evictable::Behind(_)) {
        // What the kernel holds for a client that does not read would stay there.
        socket::reset(socket);
    }
    connection.abort(cx);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use flash_core::record::Peer;

    use super::*;
    use crate::testing::{Random, each_seed};

    fn client(number: u8) -> ClientNetwork {
        ClientNetwork::of(Peer::Inet(([192, 0, 2, number], 1).into()))
    }

    /// All that go, one after the other.
    fn order(all: &[(Option<Evictable>, u8)]) -> Vec<usize> {
        let mut victims = Victims::default();
        let gone = std::cell::RefCell::new(Vec::new());
        let evictable = |token: u64| {
            let stays = !gone.borrow().contains(&(token as usize));
            all[token as usize].0.filter(|_| stays)
        };
        for now_ms in 0..all.len() as u64 {
            let candidates = (0..).zip(all).filter(|(token, _)| !gone.borrow().contains(&(*token as usize)));
            let candidates: Vec<Candidate> =
                candidates.map(|(token, (evictable, of))| (*evictable, client(*of), token)).collect();
            let found = victims.find(now_ms, candidates.into_iter(), evictable);
            let Some((_, token)) = found else { break };
            gone.borrow_mut().push(token as usize);
        }
        gone.into_inner()
    }

    #[test]
    fn the_first_found_is_the_one_that_has_been_idle_for_longest() {
        each_seed(1..50, |seed| {
            let mut random = Random::new(seed);
            let mut victims = Victims::default();
            // By token; `None` for a busy connection.
            let mut connections: BTreeMap<u64, Option<u64>> = BTreeMap::new();
            for now in 0..1_000 {
                match random.within(0..4) {
                    0 => drop(connections.insert(now, Some(now))),
                    1 if !connections.is_empty() => {
                        let tokens: Vec<u64> = connections.keys().copied().collect();
                        let state = if random.chance(50) { Some(now) } else { None };
                        connections.insert(*random.pick(&tokens), state);
                    }
                    _ => {
                        let idle = |since: &Option<u64>| since.map(Evictable::Idle);
                        let all = connections.iter().map(|(&token, since)| (idle(since), client(1), token));
                        let found = victims.find(now, all, |token| idle(connections.get(&token)?));
                        let first = connections.iter().filter_map(|(&token, since)| Some(((*since)?, token)));
                        let expected = first.min();
                        assert_eq!(found, expected.map(|(since, token)| (Evictable::Idle(since), token)));
                        found.map(|(_, token)| connections.remove(&token));
                    }
                }
            }
        });
    }

    #[test]
    fn idle_ones_go_first_then_unfinished_ones_then_those_that_are_behind() {
        let all = [
            (Some(Evictable::Behind(1)), 1),
            (Some(Evictable::Unfinished(9)), 2),
            (Some(Evictable::Idle(8)), 3),
            (None, 4),
            (Some(Evictable::Unfinished(2)), 5),
            (Some(Evictable::Idle(7)), 6),
            (Some(Evictable::Behind(3)), 7),
        ];
        assert_eq!(order(&all), [5, 2, 4, 1, 0, 6]);
    }

    #[test]
    fn a_client_with_many_gives_its_own_before_others_lose_any() {
        let mut all: Vec<_> = (0..5).map(|since| (Some(Evictable::Unfinished(100 + since)), 1)).collect();
        all.extend([
            (Some(Evictable::Idle(1)), 2),
            (Some(Evictable::Idle(2)), 3),
            (Some(Evictable::Idle(3)), 3),
        ]);
        // Four of the first client, then those of rank 1 by kind, and at last one of each.
        assert_eq!(order(&all), [0, 1, 2, 6, 3, 5, 7, 4]);
    }

    #[test]
    fn unfinished_ones_of_many_clients_leave_half_of_the_places() {
        for clients in [1, 12] {
            let unfinished =
                (0..8).map(|since| (Some(Evictable::Unfinished(100 + since)), since as u8 % clients));
            let idle = (8..12).map(|since| (Some(Evictable::Idle(since)), since as u8 % clients));
            let order = order(&unfinished.chain(idle).collect::<Vec<_>>());
            assert_eq!(order[..3], [0, 1, 8], "two more than half of all, {clients}");
        }
    }

    #[test]
    fn many_are_found_in_one_look_and_looks_are_rare() {
        let looked_at = Cell::new(0);
        let all = |count: u64| {
            (0..count)
                .map(|token| (Some(Evictable::Idle(token)), client(1), token))
                .inspect(|_| looked_at.set(looked_at.get() + 1))
        };
        let mut victims = Victims::default();
        for token in 0..5_000 {
            let idle = Evictable::Idle(token);
            assert_eq!(
                victims.find(0, all(10_000), |token| Some(Evictable::Idle(token))),
                Some((idle, token))
            );
        }
        assert_eq!(looked_at.get(), 10_000);
        let none = || {
            (0..10_000_u64)
                .map(|token| (None, client(1), token))
                .inspect(|_| looked_at.set(looked_at.get() + 1))
        };
        let mut victims = Victims::default();
        looked_at.set(0);
        for now_ms in 0..100 {
            assert_eq!(victims.find(now_ms, none(), |_| None), None);
        }
        assert_eq!(looked_at.get(), 100_000, "ten looks in a hundred milliseconds");
    }
}
