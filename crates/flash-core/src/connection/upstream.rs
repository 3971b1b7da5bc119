//! A connection's calls about upstreams: each goes to the exchange whose upstream it is about.

use std::net::SocketAddr;

use super::Connection;
use crate::context::Context;
use crate::exchange_id::ExchangeId;
use crate::protocol::Protocol;
use crate::upstream::{Open, Opened};
use crate::want::Direction;

impl Connection {
    /// What to open for an exchange. `local` is the server's address that the client connected to. Returns `None` if no
    /// route leads there; the connection has then answered itself.
    pub fn begin(&mut self, id: ExchangeId, local: Option<SocketAddr>, cx: &mut Context<'_>) -> Option<Open> {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begin(id, local, self.certificate.as_deref(), cx),
            Protocol::H2(h2) => h2.begin(id, local, self.certificate.as_deref(), cx),
        }
    }

    /// Whether the exchange awaits the result of [`Connection::begin`].
    pub fn awaits_upstream(&mut self, id: ExchangeId) -> bool {
        self.protocol.upstream_mut(id).is_some_and(|upstream| upstream.is_opening())
    }

    /// The result of [`Connection::begin`]. Returns whether the exchange takes the stream; if it is too late, the stream is
    /// of no use. The driver keeps the stream until [`Tally::released`](crate::Tally::released) names the exchange.
    pub fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begun(id, begun, cx),
            Protocol::H2(h2) => h2.begun(id, begun, cx),
        }
    }

    /// The bytes to write to the upstream next.
    pub fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        match &self.protocol {
            Protocol::H1(h1) => h1.to_upstream(id),
            Protocol::H2(h2) => h2.to_upstream(id),
        }
    }

    /// The upstream's stream took this many bytes.
    pub fn upstream_sent(&mut self, id: ExchangeId, count: usize, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_sent(id, count, cx),
            Protocol::H2(h2) => h2.upstream_sent(id, count, cx),
        }
    }

    pub fn upstream_received(&mut self, id: ExchangeId, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_received(id, bytes, cx),
            Protocol::H2(h2) => h2.upstream_received(id, bytes, cx),
        }
    }

    /// The upstream has closed its stream, or the stream is broken.
    pub fn upstream_ended(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_ended(id, cx),
            Protocol::H2(h2) => h2.upstream_ended(id, cx),
        }
    }

    /// The upstream reads no more. It may still write.
    pub fn upstream_refuses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_refuses(id, cx),
            Protocol::H2(h2) => h2.upstream_refuses(id, cx),
        }
    }

    /// The driver has shut down the sending direction of the stream.
    pub fn upstream_shut(&mut self, id: ExchangeId) {
        if let Some(upstream) = self.protocol.upstream_mut(id) {
            upstream.upstream_shut();
        }
    }

    /// How many bytes of the upstream's stream are read at a time.
    pub fn piece_bytes(&self, id: ExchangeId) -> Option<usize> {
        match &self.protocol {
            Protocol::H1(h1) => h1.piece_bytes(id),
            Protocol::H2(h2) => h2.piece_bytes(id),
        }
    }

    /// Whether a loop has time for no more than one such piece.
    pub fn takes_long(&mut self, id: ExchangeId) -> bool {
        self.protocol.upstream_mut(id).is_some_and(|upstream| upstream.takes_long())
    }

    pub fn upstream_blocked(&mut self, id: ExchangeId, direction: Direction, cx: &mut Context<'_>) {
        if direction == Direction::In {
            match &mut self.protocol {
                Protocol::H1(h1) => h1.upstream_pauses(id, cx),
                Protocol::H2(h2) => h2.upstream_pauses(id, cx),
            }
        }
        if let Some(upstream) = self.protocol.upstream_mut(id) {
            upstream.upstream_blocked(direction);
        }
    }

    /// The upstream's stream may be ready.
    pub fn upstream_ready(&mut self, id: ExchangeId) {
        if let Some(upstream) = self.protocol.upstream_mut(id) {
            upstream.upstream_ready();
        }
    }

    /// Which directions of its stream an exchange waits for: to read, and to write.
    pub fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        match &self.protocol {
            Protocol::H1(h1) => h1.interest_of(id),
            Protocol::H2(h2) => h2.interest_of(id),
        }
    }
}
