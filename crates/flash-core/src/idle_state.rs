//! What another process needs to go on with an idle connection. Its socket travels beside it.

use crate::clients::{Clients, Counted};
use crate::deadline::Deadline;
use crate::record::Peer;
use crate::transport::TransportInfo;

/// The state of a connection between two requests, as bytes for the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState([u8; BYTES]);

/// In place of a number: the one that goes on with the connection counts it.
const UNCOUNTED: u32 = u32::MAX;
const COUNTED_AT: usize = Deadline::BYTES + TransportInfo::BYTES;
/// The last ones say where the connection is counted.
const BYTES: usize = COUNTED_AT + 4;

impl IdleState {
    /// `None` if these are not the bytes of a state.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self).filter(|state| state.parts().is_some())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// When the connection is to be looked at, in the server's milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        self.parts().map_or(0, |(_, deadline)| deadline.ms())
    }

    pub fn peer(&self) -> Peer {
        self.parts().map_or(Peer::Unix, |(transport, _)| transport.peer)
    }

    pub(crate) fn with(transport: TransportInfo, deadline: &Deadline) -> Self {
        let mut bytes = [0; BYTES];
        bytes[..Deadline::BYTES].copy_from_slice(&deadline.to_bytes());
        bytes[Deadline::BYTES..COUNTED_AT].copy_from_slice(&transport.to_bytes());
        Self(bytes)
    }

    pub(crate) fn parts(&self) -> Option<(TransportInfo, Deadline)> {
        let (deadline, rest) = self.0.split_first_chunk()?;
        let (transport, _) = rest.split_first_chunk()?;
        Some((TransportInfo::from_bytes(transport)?, Deadline::from_bytes(deadline)?))
    }

    /// The state of a connection that is counted at this place.
    pub(crate) fn counted_at(self, place: Option<u32>) -> Self {
        self.with_count(place.map_or(0, |place| place + 1))
    }

    /// The same for another server, which counts its clients by itself.
    pub fn for_another_server(self) -> Self {
        self.with_count(UNCOUNTED)
    }

    /// The same for a server whose time is `ours_ms` when that of the connection's earlier server is `theirs_ms`.
    pub fn in_time(mut self, theirs_ms: u64, ours_ms: u64) -> Self {
        if let Some((_, deadline)) = self.parts() {
            self.0[..Deadline::BYTES].copy_from_slice(&deadline.in_time(theirs_ms, ours_ms).to_bytes());
        }
        self
    }

    fn with_count(mut self, number: u32) -> Self {
        self.0[COUNTED_AT..].copy_from_slice(&number.to_ne_bytes());
        self
    }

    fn count(&self) -> u32 {
        self.0.last_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Whether the one that goes on with the connection counts it.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.count() == UNCOUNTED
    }

    /// The connection's count, which is the caller's from now on.
    pub fn counted(&self, clients: &Clients) -> Option<Counted> {
        if self.is_uncounted() { None } else { clients.counted(self.count().checked_sub(1)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::connection::Connection;
    use crate::record::Peer;
    use crate::server::Settings;

    #[test]
    fn another_server_counts_time_and_clients_by_itself() {
        let settings = Settings::default();
        let connection =
            Connection::new(TransportInfo::plain(Peer::Unix), &settings, &Now::new(7_000_000, 0));
        let state = connection.idle_state().unwrap();
        let there = state.for_another_server().in_time(9_000, 100);
        assert_eq!(there.deadline_ms() - 100, state.deadline_ms() - 9_000);
        assert!(there.is_uncounted() && !state.is_uncounted());
        assert_eq!(state.in_time(9_000, 100).in_time(100, 9_000), state);
        // One that is due already is due at once, and one without a deadline has none.
        assert_eq!(state.in_time(u64::MAX / 2, 100).deadline_ms(), 100);
        let none = IdleState::with(TransportInfo::plain(Peer::Unix), &Deadline::default());
        assert_eq!(none.in_time(9_000, 100).deadline_ms(), u64::MAX);
    }
}
