//! The streams to upstreams that a loop watches. A connection has one for each exchange that an upstream answers.
//!
//! What is moved on them, and what becomes of them, is the exchanges' business.

use std::io;
use std::os::fd::OwnedFd;

use flash_core::{Connection, ExchangeId};
use slab::Slab;

use super::token::{NO_CONNECTION, split, token};
use crate::poller::{Poller, Registered};

#[derive(Default)]
pub(super) struct Streams {
    entries: Slab<Entry>,
    /// Entries are used again, each time under another token. So an event of an old stream is never taken for one of
    /// a new stream.
    generation: u32,
}

struct Entry {
    /// The connection's token.
    connection: u64,
    exchange: ExchangeId,
    stream: OwnedFd,
    registered: Registered,
    generation: u32,
    /// The next stream of the same connection.
    next: Chain,
}

/// The first of a connection's streams, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain(u32);

impl Chain {
    pub(super) const EMPTY: Self = Self(u32::MAX);

    fn first(self) -> Option<usize> {
        (self != Self::EMPTY).then_some(self.0 as usize)
    }
}

/// A token whose index has this bit is a stream's.
const OF_STREAM: u64 = 1 << 31;

pub(super) const fn is_stream(token: u64) -> bool {
    token & OF_STREAM != 0
}

impl Streams {
    pub(super) fn insert(
        &mut self,
        chain: &mut Chain,
        connection: u64,
        exchange: ExchangeId,
        stream: OwnedFd,
    ) {
        let generation = self.next_generation();
        let entry =
            Entry { connection, exchange, stream, registered: Registered::No, generation, next: *chain };
        *chain = Chain(self.entries.insert(entry) as u32);
    }

    pub(super) fn get(&self, chain: Chain, exchange: ExchangeId) -> Option<&OwnedFd> {
        let mut next = chain.first();
        while let Some(entry) = next.and_then(|index| self.entries.get(index)) {
            if entry.exchange == exchange {
                return Some(&entry.stream);
            }
            next = entry.next.first();
        }
        None
    }

    /// Removes an exchange's stream from the poller and from the loop.
    pub(super) fn take(
        &mut self,
        chain: &mut Chain,
        exchange: ExchangeId,
        poller: &mut impl Poller,
    ) -> Option<OwnedFd> {
        let index = chain.first()?;
        let entry = self.entries.get_mut(index)?;
        if entry.exchange != exchange {
            let mut rest = entry.next;
            let stream = self.take(&mut rest, exchange, poller);
            self.entries[index].next = rest;
            return stream;
        }
        let entry = self.entries.remove(index);
        *chain = entry.next;
        if entry.registered != Registered::No {
            poller.forget(&entry.stream, stream_token(entry.generation, index));
        }
        Some(entry.stream)
    }

    /// Closes all streams of a connection that is gone.
    pub(super) fn close(&mut self, mut chain: Chain, poller: &mut impl Poller) {
        while let Some(exchange) = chain.first().map(|index| self.entries[index].exchange) {
            self.take(&mut chain, exchange, poller);
        }
    }

    /// Tells the poller which events of this connection's streams end its wait.
    pub(super) fn settle(
        &mut self,
        chain: Chain,
        connection: &Connection,
        poller: &mut impl Poller,
    ) -> io::Result<()> {
        let mut next = chain.first();
        while let Some(index) = next {
            let generation = self.next_generation();
            let entry = &mut self.entries[index];
            let (bytes, room) = connection.interest_of(entry.exchange);
            let needed = if room { Registered::Room } else { Registered::Bytes };
            if entry.registered != Registered::Room && entry.registered != needed {
                if entry.registered != Registered::No {
                    poller.forget(&entry.stream, stream_token(entry.generation, index));
                    entry.registered = Registered::No;
                    entry.generation = generation;
                }
                poller.watch(&entry.stream, stream_token(entry.generation, index), needed)?;
                entry.registered = needed;
            }
            poller.rearm(&entry.stream, stream_token(entry.generation, index), bytes, room)?;
            next = entry.next.first();
        }
        Ok(())
    }

    /// An event of a stream: returns its connection's token and its exchange. `None` if the stream is gone. `goes_on`
    /// says whether the poller will report more events.
    pub(super) fn event(&mut self, token: u64, goes_on: bool) -> Option<(u64, ExchangeId)> {
        let (generation, index) = split(token & !OF_STREAM);
        let entry = self.entries.get_mut(index).filter(|entry| entry.generation == generation)?;
        if !goes_on {
            entry.registered = Registered::No;
        }
        Some((entry.connection, entry.exchange))
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = (self.generation + 1) % NO_CONNECTION;
        self.generation
    }
}

const fn stream_token(generation: u32, index: usize) -> u64 {
    token(generation, index) | OF_STREAM
}
