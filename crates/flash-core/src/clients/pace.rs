//! Pacing: how many bytes of a response may be sent now, by the rate of its client and that of its site.
//!
//! A response reserves a quantum of bytes, waits until that is due, sends it, and reserves the next one. This module knows no
//! socket and no timer. A driver lets a connection have its turn when [`Pace::due_us`] says so.

use std::sync::Arc;

use super::byte_rate::ByteRate;
use super::byte_rates::{self, Reserved};
use super::set::{Words, set_of};

/// The rates of a site or a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Of each client, over all its connections.
    pub client: Option<ByteRate>,
    /// Of all clients together.
    pub total: Option<ByteRate>,
}

/// What a program or a link says of the client's rate, in place of the site: a rate, or none.
pub(crate) type SaidRate = Option<ByteRate>;

impl Rates {
    /// With what was said in place of the client's rate.
    #[inline]
    pub(crate) fn or_said(self, said: Option<SaidRate>) -> Self {
        Self { client: said.unwrap_or(self.client), ..self }
    }

    /// Whether there is no limit.
    #[inline]
    pub(crate) fn are_off(self) -> bool {
        self.client.is_none() && self.total.is_none()
    }
}

/// What a program says: bytes per second, or 0 for no limit.
pub(crate) fn said_by_program(bytes_per_s: u64) -> Option<SaidRate> {
    match bytes_per_s {
        0 => Some(None),
        bytes => ByteRate::new(bytes, None).ok().map(Some),
    }
}

/// What a response may send.
pub(crate) struct Pace {
    words: Words,
    /// The rates, each with the hash of whoever it is for. The client's own is the first, so that nobody has a part of the total who
    /// may not send.
    budgets: [Option<(ByteRate, u64)>; 2],
    quantum: u64,
    state: State,
    now_us: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes may be sent. They are reserved in all budgets.
    Open(u64),
    /// So many bytes are reserved in the first budgets, `reserved` in number. At this time the next budget is asked; behind the last
    /// one, they may be sent.
    Waits { due_us: u64, bytes: u64, reserved: usize },
}

impl Pace {
    /// `None` without rates.
    pub(super) fn new(words: &Words, budgets: [Option<(ByteRate, u64)>; 2], now_us: u64) -> Option<Self> {
        let quantum = budgets.iter().flatten().map(|(rate, _)| rate.quantum()).min()?;
        Some(Self { words: Arc::clone(words), budgets, quantum, state: State::Open(0), now_us })
    }

    /// How many bytes may be sent now, if so many wait.
    pub(crate) fn allows(&mut self, waiting: u64, now_us: u64) -> u64 {
        self.now_us = now_us;
        if matches!(self.state, State::Open(0)) && waiting > 0 {
            self.state = State::Waits { due_us: now_us, bytes: waiting.min(self.quantum), reserved: 0 };
        }
        while let State::Waits { due_us, bytes, reserved } = self.state
            && due_us <= now_us
        {
            self.state = self.reserve(bytes, reserved);
        }
        self.allowed()
    }

    /// How many bytes may be sent, as it was when that was asked.
    pub(crate) fn allowed(&self) -> u64 {
        match self.state {
            State::Open(bytes) => bytes,
            State::Waits { .. } => 0,
        }
    }

    pub(crate) fn sent(&mut self, bytes: u64) {
        if let State::Open(allowed) = &mut self.state {
            *allowed = allowed.saturating_sub(bytes);
        }
    }

    /// When more may be sent, if that has to be waited for.
    pub(crate) fn due_us(&self) -> Option<u64> {
        match self.state {
            State::Open(_) => None,
            State::Waits { due_us, .. } => Some(due_us),
        }
    }

    /// Reserves bytes in the next budget. So many have them already.
    fn reserve(&self, bytes: u64, reserved: usize) -> State {
        let table = (*self.words).as_ref();
        let Some((rate, hash)) = self.budgets.iter().flatten().nth(reserved) else {
            return State::Open(bytes);
        };
        match byte_rates::reserve(&table[set_of(table, *hash)], rate, bytes, self.now_us, *hash) {
            Reserved::From(due_us) => State::Waits { due_us, bytes, reserved: reserved + 1 },
            Reserved::Full(due_us) => State::Waits { due_us, bytes, reserved },
        }
    }

    /// Gives back bytes to the first budgets.
    fn give_back(&self, bytes: u64, budgets: usize) {
        let table = (*self.words).as_ref();
        for (rate, hash) in self.budgets.iter().flatten().take(budgets) {
            byte_rates::give_back(&table[set_of(table, *hash)], rate, bytes, self.now_us, *hash);
        }
    }
}

/// What is not sent is there for other connections.
impl Drop for Pace {
    fn drop(&mut self) {
        match self.state {
            State::Open(0) => {}
            State::Open(bytes) => self.give_back(bytes, self.budgets.len()),
            State::Waits { bytes, reserved, .. } => self.give_back(bytes, reserved),
        }
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
