//! What another process needs to go on with an idle connection. Its socket travels beside it.

use crate::clients::deadline::Deadline;
use crate::clients::{Clients, Counted};
use crate::connection::transport::TransportInfo;
use crate::record::Peer;

/// The state of a connection between two requests, as bytes for the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState([u8; BYTES]);

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
    pub(crate) fn counted_at(mut self, place: Option<u32>) -> Self {
        let number = place.map_or(0, |place| place + 1);
        self.0[COUNTED_AT..].copy_from_slice(&number.to_ne_bytes());
        self
    }

    /// The connection's count, which is the caller's from now on.
    pub fn counted(&self, clients: &Clients) -> Option<Counted> {
        let number = u32::from_ne_bytes(*self.0.last_chunk()?);
        clients.counted(number.checked_sub(1)?)
    }
}
