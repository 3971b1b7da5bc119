//! Who counts as one client, and what each client has used of its limits: requests and bytes by time, and connections.
//!
//! A client is an IPv4 address, or the first 64 bits of an IPv6 address, because a client of IPv6 has all the others. The
//! tables have a fixed size, so a million addresses take no more memory than one. All loops share them without a lock, and so
//! do all processes: the memory comes from the driver. Each table is divided into sets of eight words by a keyed hash, so no
//! client can choose addresses that fall into one set.

pub(crate) mod deadline;
pub mod forwarded;
pub(crate) mod linger;
pub mod link;
pub mod login;
pub mod proxy_header;
pub mod send_credit;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use crate::record::Peer;

mod byte_rate;
mod byte_rates;
mod connections;
pub(crate) mod pace;
mod rate;
mod rates;
mod set;

pub use byte_rate::ByteRate;
pub use connections::TooMany;
use pace::Pace;
pub use pace::Rates;
pub use rate::Rate;
pub use set::Words;
use set::set_of;

/// The tables.
#[derive(Clone)]
pub struct Clients {
    key: RandomState,
    rates: Option<Words>,
    byte_rates: Option<Words>,
    connections: Option<Words>,
    connections_max: u64,
}

/// A connection that is counted. It ends with this value.
pub struct Counted {
    /// `None` if another process has it now.
    connections: Option<Words>,
    place: u32,
}

impl Clients {
    /// How many words the table of rates has: one for each client that has used a part of its limit, and is not idle since.
    pub const RATE_WORDS: usize = 128 << 10;

    /// No limits.
    pub fn unlimited() -> Self {
        Self {
            key: RandomState::new(),
            rates: None,
            byte_rates: None,
            connections: None,
            connections_max: u64::MAX,
        }
    }

    /// Limits requests, too. The number of words is a power of two, and 8 at least.
    pub fn with_rates(self, words: Words) -> Self {
        Self { rates: Some(words), ..self }
    }

    /// Limits no requests. Connections stay counted.
    pub fn without_rates(self) -> Self {
        Self { rates: None, ..self }
    }

    /// Limits bytes, too. The table has as many words as that of requests.
    pub fn with_byte_rates(self, words: Words) -> Self {
        Self { byte_rates: Some(words), ..self }
    }

    /// Limits the connections of each client, too. There should be twice as many words as connections.
    pub fn with_connections(self, connections_max: u32, words: Words) -> Self {
        Self { connections: Some(words), connections_max: connections_max.into(), ..self }
    }

    /// Counts a request of this client for a limit, which is that of a group of sites and places.
    ///
    /// # Errors
    /// If the client has used up the limit: how many seconds it has to wait.
    pub(crate) fn take_request(
        &self,
        group: impl Hash,
        rate: &Rate,
        client: Peer,
        now_us: u64,
    ) -> Result<(), u64> {
        let Some(words) = &self.rates else { return Ok(()) };
        let hash = self.hash((group, rate), client);
        rates::take(&(**words).as_ref()[set_of((**words).as_ref(), hash)], rate, now_us, hash)
    }

    /// The pace of a response to this client, in a group of sites and places. `None` without rates.
    pub(crate) fn pace(&self, group: u32, rates: Rates, client: Peer, now_us: u64) -> Option<Box<Pace>> {
        let of_client = rates.client.map(|rate| (rate, self.hash((group, rate), client)));
        let total = rates.total.map(|rate| (rate, self.hash((group, rate, "total"), Peer::Unix)));
        Pace::new(self.byte_rates.as_ref()?, [of_client, total], now_us).map(Box::new)
    }

    /// Counts a connection of this client. `None` if it need not be counted.
    ///
    /// # Errors
    /// If the client has as many as it may.
    pub fn enter(&self, client: Peer) -> Result<Option<Counted>, TooMany> {
        let (Some(words), Peer::Inet(_)) = (&self.connections, client) else { return Ok(None) };
        let place = connections::enter((**words).as_ref(), self.hash((), client), self.connections_max)?;
        Ok(place.map(|place| Counted { connections: Some(Arc::clone(words)), place }))
    }

    /// Whether this client may open another connection.
    pub fn may_enter(&self, client: Peer) -> bool {
        let (Some(words), Peer::Inet(_)) = (&self.connections, client) else { return true };
        connections::count((**words).as_ref(), self.hash((), client)) < self.connections_max
    }

    /// A connection that another process has counted.
    pub fn counted(&self, place: u32) -> Option<Counted> {
        let words = self.connections.as_ref().filter(|words| (place as usize) < (***words).as_ref().len())?;
        Some(Counted { connections: Some(Arc::clone(words)), place })
    }

    fn hash(&self, what: impl Hash, client: Peer) -> u64 {
        self.key.hash_one((what, network(client)))
    }
}

/// What a client is known by: the version of its address, and its first 64 bits at most.
pub(crate) fn network(client: Peer) -> (u8, u64) {
    match client {
        Peer::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => (4, u64::from(ip.to_bits())),
            IpAddr::V6(ip) => (6, (ip.to_bits() >> 64) as u64),
        },
        Peer::Unix => (0, 0),
    }
}

impl Counted {
    pub fn place(&self) -> u32 {
        self.place
    }

    /// The connection goes on in another process, which ends it.
    pub fn pass_on(mut self) {
        self.connections = None;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(words) = &self.connections {
            connections::leave(&(**words).as_ref()[self.place as usize]);
        }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("connections_max", &self.connections_max).finish_non_exhaustive()
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
