//! A client's connection: bytes in, wants out. It passes every call on to its protocol.
//!
//! A driver performs what [`Connection::want`] returns and reports the result. It repeats this until a want makes it wait.
//! Everything here happens in memory: there is no system call. The protocol knows what the bytes mean. The exchange knows
//! what a request asks for.

use std::net::SocketAddr;

use crate::clock::Now;
use crate::context::Context;
use crate::exchange_id::ExchangeId;
use crate::idle_state::IdleState;
use crate::job::Outcome;
use crate::output::Output;
use crate::protocol::Protocol;
use crate::protocol::h1::Http1;
use crate::record::Peer;
use crate::server::Settings;
use crate::transport::TransportInfo;
use crate::upstream::{Open, Opened};
use crate::want::{Direction, Want};

/// A client's connection. Each call matches on the protocol: that costs nothing with one protocol, and a branch with two.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
}

impl Connection {
    pub fn new(transport: TransportInfo, settings: &Settings, now: &Now) -> Self {
        Self { protocol: Protocol::H1(Http1::new(transport, settings, now)) }
    }

    /// What another process needs to go on with the connection. `None` unless it is between two requests.
    pub fn idle_state(&self) -> Option<IdleState> {
        match &self.protocol {
            Protocol::H1(h1) => h1.idle_state(),
        }
    }

    /// Goes on with a connection that was idle in another process.
    pub fn from_idle(transport: TransportInfo, state: IdleState) -> Option<Self> {
        Some(Self { protocol: Protocol::H1(Http1::from_idle(transport, state)?) })
    }

    pub fn peer(&self) -> Peer {
        match &self.protocol {
            Protocol::H1(h1) => h1.peer(),
        }
    }

    #[inline]
    pub fn want(&mut self, cx: &mut Context<'_>) -> Want {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.want(cx),
        }
    }

    #[inline]
    pub fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.received(bytes, cx),
        }
    }

    /// The client has closed its sending side. It still gets the responses to its requests.
    pub fn received_end(&mut self, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.received_end(cx),
        }
    }

    /// The socket has nothing to read for now. Returns whether the connection may want something else meanwhile.
    #[inline]
    pub fn receive_blocked(&mut self) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.receive_blocked(),
        }
    }

    #[inline]
    pub fn output(&self) -> Option<&Output> {
        match &self.protocol {
            Protocol::H1(h1) => h1.output(),
        }
    }

    /// The socket took this many bytes of the output.
    #[inline]
    pub fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.sent(bytes, cx),
        }
    }

    /// The socket takes no more for now. If a window of a file is in the output, it is made ready again before the next
    /// attempt. Returns whether the connection may want something else meanwhile.
    pub fn send_blocked(&mut self) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.send_blocked(),
        }
    }

    /// The client's socket may be ready.
    pub fn client_ready(&mut self) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.client_ready(),
        }
    }

    /// The result of an exchange's job.
    pub fn completed(&mut self, id: ExchangeId, outcome: Outcome, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.completed(id, outcome, cx),
        }
    }

    /// What to open for an exchange. `local` is the server's address that the client connected to. Returns `None` if no
    /// route leads there; the connection has then answered itself.
    pub fn begin(&mut self, id: ExchangeId, local: Option<SocketAddr>, cx: &mut Context<'_>) -> Option<Open> {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begin(id, local, cx),
        }
    }

    /// The result of [`Connection::begin`]. Returns whether the exchange takes the stream; if it is too late, the stream is
    /// of no use. The driver keeps the stream until [`Tally::released`](crate::Tally::released) names the exchange.
    pub fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begun(id, begun, cx),
        }
    }

    /// The bytes to write to the upstream next.
    pub fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        match &self.protocol {
            Protocol::H1(h1) => h1.to_upstream(id),
        }
    }

    /// The upstream's stream took this many bytes.
    pub fn upstream_sent(&mut self, id: ExchangeId, count: usize, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_sent(id, count, cx),
        }
    }

    pub fn upstream_received(&mut self, id: ExchangeId, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_received(id, bytes, cx),
        }
    }

    /// The upstream has closed its stream, or the stream is broken.
    pub fn upstream_ended(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_ended(id, cx),
        }
    }

    /// The upstream reads no more. It may still write.
    pub fn upstream_refuses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_refuses(id, cx),
        }
    }

    /// The driver has shut down the sending direction of the stream.
    pub fn upstream_shut(&mut self, id: ExchangeId) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_shut(id),
        }
    }

    pub fn upstream_blocked(&mut self, id: ExchangeId, direction: Direction) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_blocked(id, direction),
        }
    }

    /// The upstream's stream may be ready.
    pub fn upstream_ready(&mut self, id: ExchangeId) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_ready(id),
        }
    }

    /// Which directions of its stream an exchange waits for: to read, and to write.
    pub fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        match &self.protocol {
            Protocol::H1(h1) => h1.interest_of(id),
        }
    }

    /// Whether a call on the client's socket must not block, because another event may come first.
    #[inline]
    pub fn is_exchanging(&self) -> bool {
        match &self.protocol {
            Protocol::H1(h1) => h1.is_exchanging(),
        }
    }

    /// When [`Connection::expire`] is due, in the server's milliseconds.
    #[inline]
    pub fn deadline_ms(&self) -> u64 {
        match &self.protocol {
            Protocol::H1(h1) => h1.deadline_ms(),
        }
    }

    /// The deadline has passed. `unacknowledged` returns how many sent bytes the client has not acknowledged. It is called
    /// only if the number matters.
    pub fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl FnOnce() -> u64) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.expire(cx, unacknowledged),
        }
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        match &self.protocol {
            Protocol::H1(h1) => h1.is_idle(),
        }
    }

    /// Since when, in the server's milliseconds, the connection has been idle. `None` if closing it would do harm. After a
    /// close, the kernel still delivers what it holds for the client.
    pub fn idle_since_ms(&self, settings: &Settings) -> Option<u64> {
        match &self.protocol {
            Protocol::H1(h1) => h1.idle_since_ms(settings),
        }
    }

    /// Ends the connection at once, and records its exchange.
    pub fn abort(&mut self, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.abort(cx),
        }
    }
}

#[cfg(test)]
impl Connection {
    fn h1(&self) -> &Http1 {
        match &self.protocol {
            Protocol::H1(h1) => h1,
        }
    }

    fn h1_mut(&mut self) -> &mut Http1 {
        match &mut self.protocol {
            Protocol::H1(h1) => h1,
        }
    }
}

#[cfg(test)]
mod tests;
