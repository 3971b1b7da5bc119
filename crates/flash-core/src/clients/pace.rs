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
    /// The rates, each with the hash of whoever it is for.
    budgets: [Option<(ByteRate, u64)>; 2],
    quantum: u64,
    state: State,
    now_us: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes may be sent. They are reserved.
    Open(u64),
    /// So many bytes are reserved, and may be sent from this time on.
    Waits { due_us: u64, bytes: u64 },
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
            self.reserve(waiting.min(self.quantum));
        }
        if let State::Waits { due_us, bytes } = self.state
            && due_us <= now_us
        {
            self.state = State::Open(bytes);
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

    fn reserve(&mut self, bytes: u64) {
        let table = (*self.words).as_ref();
        let mut due_us = self.now_us;
        for (number, (rate, hash)) in self.budgets.iter().flatten().enumerate() {
            match byte_rates::reserve(&table[set_of(table, *hash)], rate, bytes, self.now_us, *hash) {
                Reserved::From(from_us) => due_us = due_us.max(from_us),
                Reserved::Full(again_us) => {
                    self.give_back(bytes, number);
                    return self.state = State::Waits { due_us: again_us, bytes: 0 };
                }
            }
        }
        self.state = State::Waits { due_us, bytes };
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
        let (State::Open(bytes) | State::Waits { bytes, .. }) = self.state;
        if bytes > 0 {
            self.give_back(bytes, self.budgets.len());
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
