//! A client's connection: bytes in, wants out. It picks a protocol and passes every call on to it.
//!
//! A driver performs what [`Connection::want`] returns, tells the outcome, and asks again, until the want is one
//! that it has to wait for. Everything here happens in memory: see the crate's opening words for what is absent.
//! What the bytes mean is the [protocol](crate::protocol)'s; what a request asks for is its
//! [exchange](crate::exchange)'s.

use std::net::SocketAddr;

use crate::clock::Now;
use crate::context::Context;
use crate::exchange_id::ExchangeId;
use crate::job::Outcome;
use crate::output::Output;
use crate::protocol::Protocol;
use crate::protocol::h1::Http1;
use crate::record::Peer;
use crate::site::Site;
use crate::transport::TransportInfo;
use crate::upstream::{Open, Opened};
use crate::want::{Direction, Want};

/// Every call is a match on the protocol: with one protocol it costs nothing, and with two a branch.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
}

impl Connection {
    pub fn new(transport: TransportInfo, site: &Site, now: &Now) -> Self {
        Self { protocol: Protocol::H1(Http1::new(transport, site, now)) }
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

    /// The client will send no more. What it has asked for it still gets.
    pub fn received_end(&mut self, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.received_end(cx),
        }
    }

    /// The client has sent nothing more as yet. Returns whether something else may be wanted meanwhile.
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

    /// The socket took so many bytes of the output.
    #[inline]
    pub fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.sent(bytes, cx),
        }
    }

    /// The socket takes no more for now. A window in the output is made ready again before the next attempt. Returns
    /// whether something else may be wanted meanwhile.
    pub fn send_blocked(&mut self) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.send_blocked(),
        }
    }

    /// Something may have happened at the client's socket.
    pub fn client_ready(&mut self) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.client_ready(),
        }
    }

    /// What came of an exchange's job.
    pub fn completed(&mut self, id: ExchangeId, outcome: Outcome, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.completed(id, outcome, cx),
        }
    }

    /// What is to be begun for an exchange. `local` is the server's address that the client connected to. `None` where
    /// nothing can be, which the connection has answered itself.
    pub fn begin(&mut self, id: ExchangeId, local: Option<SocketAddr>, cx: &mut Context<'_>) -> Option<Open> {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begin(id, local, cx),
        }
    }

    /// What became of [`Connection::begin`]. Returns whether the exchange takes it; otherwise it is too late, and the
    /// stream of no use. The driver keeps the stream until [`Tally::released`](crate::Tally::released) names the
    /// exchange.
    pub fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.begun(id, begun, cx),
        }
    }

    /// What the program is to be told next.
    pub fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        match &self.protocol {
            Protocol::H1(h1) => h1.to_upstream(id),
        }
    }

    /// The stream took so many bytes.
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

    /// The program says no more, or its stream is broken.
    pub fn upstream_ended(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_ended(id, cx),
        }
    }

    /// The program takes no more, whatever it may say.
    pub fn upstream_refuses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_refuses(id, cx),
        }
    }

    /// The end of what the program is told has been told.
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

    /// Something may have happened at the program's stream.
    pub fn upstream_ready(&mut self, id: ExchangeId) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.upstream_ready(id),
        }
    }

    /// For which directions of its stream an exchange waits: bytes, and room.
    pub fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        match &self.protocol {
            Protocol::H1(h1) => h1.interest_of(id),
        }
    }

    /// Whether a call on the client's socket must not wait, because something else may happen first.
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

    /// The deadline has passed. `unacknowledged` tells how many bytes the client's socket has taken that the client has
    /// not acknowledged; it is asked only where that matters.
    pub fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl FnOnce() -> u64) {
        match &mut self.protocol {
            Protocol::H1(h1) => h1.expire(cx, unacknowledged),
        }
    }

    /// Whether nothing at all is under way.
    pub fn is_idle(&self) -> bool {
        match &self.protocol {
            Protocol::H1(h1) => h1.is_idle(),
        }
    }

    /// Since when, in the server's milliseconds, a connection has been idle that could be closed without harm. What the
    /// kernel still has for its client is delivered all the same.
    pub fn idle_since_ms(&self, site: &Site) -> Option<u64> {
        match &self.protocol {
            Protocol::H1(h1) => h1.idle_since_ms(site),
        }
    }

    /// Ends the connection where it stands, for whatever reason, and records what was under way.
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
