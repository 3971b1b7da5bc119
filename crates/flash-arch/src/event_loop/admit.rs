//! New connections when all permits are taken, or too many handshakes are unfinished: which of the loop's connections gives way.

use flash_core::Evictable;

use super::EventLoop;
use super::slot::Slot;
use super::token::token;
use super::{slot_of, split};
use crate::connections::permit::{ConnectionPermit, WaitingConnection};
use crate::connections::victims;
use crate::dispatch::Dispatch;
use crate::fair_queue::ClientNetwork;
use crate::poller::Poller;

impl<D: Dispatch + Send + 'static, P: Poller> EventLoop<D, P> {
    pub(super) fn admit(&mut self, waiting_connection: WaitingConnection) {
        match self.worker.shared.permit().or_else(|| self.take_permit()) {
            Some(permit) => {
                self.open_connection(waiting_connection.socket, waiting_connection.transport, permit)
            }
            None => self.worker.shared.pass_on(waiting_connection, &self.completions),
        }
    }

    /// Closes the connection that goes first, and returns its permit.
    pub(super) fn take_permit(&mut self) -> Option<ConnectionPermit> {
        let Self { slots, worker, victims, .. } = self;
        let now_ms = worker.clock.now.ms();
        let configuration = worker.shared.configuration();
        let evictable = |slot: &Slot<P::SocketState>| {
            let Slot { connection, transport, socket, .. } = slot;
            victims::evictable(connection, transport, socket, now_ms, &configuration.server.settings)
        };
        let all = slots.iter().map(|(index, slot)| {
            (evictable(slot), ClientNetwork::of(slot.connection.peer()), token(slot.generation, index))
        });
        let (evicted, token) = victims.find(now_ms, all, |token| evictable(slot_of(slots, token)?))?;
        let permit = self.slots.get_mut(split(token).1)?.permit.take()?;
        self.turn(token, |slot, _, cx| victims::evict(evicted, &mut slot.connection, &slot.socket, cx));
        Some(self.worker.shared.reuse(permit))
    }

    /// Closes a connection whose handshake has waited for its client for longest. Returns whether there is one.
    pub(super) fn close_oldest_handshake(&mut self) -> bool {
        let Self { slots, worker, oldest_handshakes, .. } = self;
        let since =
            |slot: &Slot<P::SocketState>| slot.transport.unfinished_since_ms().map(Evictable::Unfinished);
        let all = slots.iter().map(|(index, slot)| {
            (since(slot), ClientNetwork::of(slot.connection.peer()), token(slot.generation, index))
        });
        let of = |token| since(slot_of(slots, token)?);
        let Some((_, token)) = oldest_handshakes.find(worker.clock.now.ms(), all, of) else { return false };
        if let Some(slot) = slots.get_mut(split(token).1) {
            slot.transport.shed();
        }
        self.close(token);
        true
    }
}
