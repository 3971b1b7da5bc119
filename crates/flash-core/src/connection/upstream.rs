//! A connection's calls about upstreams: each goes to the exchange whose upstream it is about.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Connection;
use crate::connection::context::Context;
use crate::connection::want::Direction;
use crate::exchange::id::ExchangeId;
use crate::exchange::upstream::{UpstreamEvent, UpstreamExchange};
use crate::upstream::{Open, Opened};

impl Connection {
    fn upstream(&self, id: ExchangeId) -> Option<&UpstreamExchange> {
        self.protocol.exchange(id)?.upstream()
    }

    fn upstream_mut(&mut self, id: ExchangeId) -> Option<&mut UpstreamExchange> {
        self.protocol.exchange_mut(id)?.upstream_mut()
    }

    /// What to open for an exchange. `local` is the server's address that the client connected to. Returns `None` if no
    /// route leads there; the connection has then answered itself.
    pub fn begin(&mut self, id: ExchangeId, local: Option<SocketAddr>, cx: &mut Context<'_>) -> Option<Open> {
        let (transport, is_alone) = (*self.protocol.transport(), self.protocol.is_alone());
        let exchange = self.protocol.exchange_mut(id)?;
        let site = Arc::clone(&exchange.site);
        let of = (&*site, exchange.terms, exchange.timing);
        let may_have_client = is_alone && site.settings.rates.or_said(exchange.passed.rate()).are_off();
        let transport = (&transport, self.certificate.as_deref());
        match exchange.upstream_mut()?.begin(of, transport, local, may_have_client, cx) {
            Ok(begin) => Some(begin),
            Err(fault) => {
                self.protocol.give_up(id, fault, cx);
                None
            }
        }
    }

    /// Whether the exchange awaits the result of [`Connection::begin`].
    pub fn awaits_upstream(&self, id: ExchangeId) -> bool {
        self.upstream(id).is_some_and(UpstreamExchange::is_opening)
    }

    /// The result of [`Connection::begin`]. Returns whether the exchange takes the stream; if it is too late, the stream is
    /// of no use. The driver keeps the stream until [`Tally::released`](crate::Tally::released) names the exchange.
    pub fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        let Some(upstream) = self.upstream_mut(id).filter(|upstream| upstream.is_opening()) else {
            return false;
        };
        upstream.program_lives(cx);
        let queued = match &begun {
            Opened::Running((), upstream) => upstream.queued,
            Opened::Detached | Opened::Failed(_) => Duration::ZERO,
        };
        upstream.clock.opens(queued, cx.now);
        match upstream.begun(begun, cx.now.unix_seconds() as u64) {
            Ok(true) => self.protocol.feed(id, cx),
            Ok(false) => self.protocol.detach(cx),
            Err(fault) => self.protocol.give_up(id, fault, cx),
        }
        true
    }

    /// The bytes to write to the upstream next.
    pub fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        self.upstream(id).map_or(&[], UpstreamExchange::to_upstream)
    }

    /// The upstream's stream took this many bytes.
    pub fn upstream_sent(&mut self, id: ExchangeId, count: usize, cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_sent(count);
            upstream.program_lives(cx);
            self.protocol.feed(id, cx);
        }
    }

    pub fn upstream_received(&mut self, id: ExchangeId, bytes: &[u8], cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.program_lives(cx);
            upstream.clock.receives(cx.now);
        }
        self.protocol.upstream_event(id, UpstreamEvent::Received(bytes), cx);
    }

    /// The upstream's stream is broken. All that has come before is read.
    pub fn upstream_broke(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        self.protocol.upstream_event(id, UpstreamEvent::Broken, cx);
    }

    /// The upstream has closed its stream.
    pub fn upstream_ended(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        self.protocol.upstream_event(id, UpstreamEvent::Ended, cx);
    }

    /// The upstream reads no more. It may still write.
    pub fn upstream_refuses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_refuses();
            self.protocol.feed(id, cx);
        }
    }

    /// The driver has shut down the sending direction of the stream.
    pub fn upstream_shut(&mut self, id: ExchangeId) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_shut();
        }
    }

    /// How many bytes of the upstream's stream are read at a time.
    pub fn piece_bytes(&self, id: ExchangeId) -> Option<usize> {
        Some(self.upstream(id)?.piece_bytes(self.protocol.waiting_bytes(id)))
    }

    /// Whether a loop has time for no more than one such piece.
    pub fn takes_long(&self, id: ExchangeId) -> bool {
        self.upstream(id).is_some_and(UpstreamExchange::takes_long)
    }

    pub fn upstream_blocked(&mut self, id: ExchangeId, direction: Direction, cx: &mut Context<'_>) {
        if direction == Direction::In && self.upstream(id).is_some_and(UpstreamExchange::holds_back) {
            self.protocol.upstream_event(id, UpstreamEvent::Paused, cx);
        }
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_blocked(direction);
        }
    }

    /// The upstream's stream may be ready.
    pub fn upstream_ready(&mut self, id: ExchangeId) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_ready();
        }
    }

    /// Which directions of its stream an exchange waits for: to read, and to write.
    pub fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        let awaited = |upstream: &UpstreamExchange| upstream.awaited(self.protocol.waiting_bytes(id));
        self.upstream(id).map_or((false, false), awaited)
    }
}
