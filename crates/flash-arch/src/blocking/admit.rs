//! New connections of workers that block, when all permits are taken or no worker is left: which connection gives way.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::record::counters::Count;
use flash_core::{Evictable, TransportInfo};

use super::source::{ServedClient, Source};
use super::{Blocking, CLIENT_PATIENCE, LOOK_UP};
use crate::connections::transport::Transport;
use crate::connections::{socket, victims};
use crate::server_state::ServerState;

/// How long a new connection waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

impl<S: Source> Blocking<S> {
    /// Gets a permit for a new connection: a free one, or that of a parked connection that gives way. If there is neither, it is the
    /// first that is free within a second.
    pub(super) fn admit(
        &mut self,
        shared: &Arc<ServerState>,
        socket: OwnedFd,
        transport: TransportInfo,
    ) -> Option<Box<ServedClient>> {
        if !shared.lets_connect(&socket, &transport) {
            return None;
        }
        let mut given_up = || {
            let has_many = shared.unfinished.get() > shared.handshakes_share();
            let unfinished = has_many.then(|| self.source.take_oldest_handshake()).flatten();
            let client = unfinished.or_else(|| self.source.take_victim())?;
            Some(shared.reuse(client.permit))
        };
        let (socket, permit) = match shared.permit().or_else(&mut given_up) {
            Some(permit) => (socket, permit),
            None => {
                let waiting = shared.waiting_connection(socket, transport)?;
                shared.wait_for_permit(waiting, PERMIT_TIMEOUT, given_up)?
            }
        };
        self.worker.clock.read();
        let carries = shared.transport(&transport, &shared.unfinished, self.worker.clock.now.ms());
        self.limit_handshakes(&carries);
        let connection = self.worker.connection(transport);
        socket::set_timeouts(&socket, CLIENT_PATIENCE, LOOK_UP).ok()?;
        Some(Box::new(ServedClient { connection, transport: carries, socket, permit }))
    }

    /// Closes the parked connection with the oldest handshake, if too many have not finished theirs. If none is parked, other
    /// workers have them, and do the same before they park one.
    pub(super) fn limit_handshakes(&mut self, transport: &Transport) {
        if transport.unfinished_in_loop() > self.worker.shared.handshakes_share() {
            drop(self.source.take_oldest_handshake());
        }
    }

    /// Whether so many connections are in their handshakes that this one is parked at once, if it is one of them. A worker that
    /// waits keeps it from being closed for others.
    pub(super) fn is_crowded(&self, transport: &Transport) -> bool {
        transport.unfinished_since_ms().is_some()
            && transport.unfinished_in_loop() > self.worker.shared.handshakes_share() / 2
    }

    /// Whether the connection is closed for a new one, because its worker waits for a client in vain.
    pub(super) fn gives_way(
        &mut self,
        ServedClient { connection, transport, socket, .. }: &ServedClient,
    ) -> bool {
        if !self.source.lacks_places() {
            return false;
        }
        let now_ms = self.worker.clock.now.ms();
        let settings = &self.worker.configuration().server.settings;
        let evictable = victims::evictable(connection, transport, socket, now_ms, settings);
        if !self.source.gives_way(evictable) {
            return false;
        }
        if matches!(evictable, Some(Evictable::Behind(_))) {
            socket::reset(socket);
        }
        self.worker.shared.metrics.add(Count::Evicted, 1);
        true
    }
}
