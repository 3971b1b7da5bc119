//! Connections that leave a loop for the server that takes this one's place, some in each turn.
//!
//! A connection leaves in a turn of its own, once it is idle. So one that becomes idle later leaves at once.

use std::collections::VecDeque;

use slab::Slab;

use super::slot::Slot;
use super::token::token;
use crate::hand_over::{Given, HandOver, RETRY_MS};
use crate::poller::Poller;

/// Which connections the loop has not tried to give to the successor.
#[derive(Default)]
pub(super) struct Leaving {
    /// The place of the next one among all, while the loop goes through them.
    next: Option<usize>,
    /// Those that the successor had no room for.
    later: VecDeque<u64>,
    /// Until then the successor has no room.
    retry_at_ms: u64,
}

impl Leaving {
    /// The loop goes through all its connections from now on.
    pub(super) fn begin(&mut self) {
        self.next = Some(0);
    }

    /// How long until the next connection can leave. `None` if none waits for that.
    pub(super) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        let waits = self.next.is_some() || !self.later.is_empty();
        waits.then(|| self.retry_at_ms.saturating_sub(now_ms))
    }

    /// Whether the successor has room, as far as the loop knows.
    pub(super) fn may_try(&self, now_ms: u64) -> bool {
        now_ms >= self.retry_at_ms
    }

    /// The token of the next connection to try.
    pub(super) fn next<S>(&mut self, slots: &Slab<Box<Slot<S>>>) -> Option<u64> {
        while let Some(index) = self.next.take() {
            if index >= slots.capacity() {
                break;
            }
            self.next = Some(index + 1);
            if let Some(slot) = slots.get(index) {
                return Some(token(slot.generation, index));
            }
        }
        self.later.pop_front()
    }

    /// Gives a connection to the successor, if it is idle.
    pub(super) fn give<P: Poller>(
        &mut self,
        slot: &mut Slot<P::SocketState>,
        to: &HandOver,
        token: u64,
        poller: &mut P,
        now_ms: u64,
    ) -> Given {
        // The keys of TLS stay here.
        let Some(state) = slot.connection.idle_state().filter(|_| !slot.transport.is_tls()) else {
            return Given::No;
        };
        if !self.may_try(now_ms) {
            self.later.push_back(token);
            return Given::Later;
        }
        if !poller.lets_go(&mut slot.socket_state, token) {
            return Given::No;
        }
        let given = to.give(state, &slot.socket, now_ms);
        match given {
            // Another process has the socket, so a close here would not end the watch.
            Given::Yes => poller.forget(&slot.socket, token),
            Given::Later => {
                self.later.push_back(token);
                self.retry_at_ms = now_ms + RETRY_MS;
            }
            Given::No => {}
        }
        given
    }
}
