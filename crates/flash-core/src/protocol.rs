//! The wire protocols that a connection can speak: HTTP/1 and HTTP/2.
//!
//! A protocol turns bytes into requests, and responses into bytes. It knows when its connection may be closed. An
//! [exchange](crate::exchange) finds the response to a request.

pub(crate) mod h1;
pub(crate) mod h2;

use self::h1::Http1;
use self::h2::Http2;
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::exchange::Exchange;
use crate::exchange::id::ExchangeId;
use crate::exchange::upstream::{GatewayError, UpstreamEvent};

#[derive(Debug)]
pub(crate) enum Protocol {
    H1(Http1),
    // Boxed, because most of what it holds is only there while a client speaks it.
    H2(Box<Http2>),
}

impl Protocol {
    /// Asks the protocol that the client speaks.
    #[inline]
    pub(crate) fn ask<'p, R>(
        &'p self,
        h1: impl FnOnce(&'p Http1) -> R,
        h2: impl FnOnce(&'p Http2) -> R,
    ) -> R {
        match self {
            Self::H1(protocol) => h1(protocol),
            Self::H2(protocol) => h2(protocol),
        }
    }

    /// Calls the protocol that the client speaks, `with` what the call takes.
    #[inline]
    pub(crate) fn call<'p, A, R>(
        &'p mut self,
        with: A,
        h1: impl FnOnce(&'p mut Http1, A) -> R,
        h2: impl FnOnce(&'p mut Http2, A) -> R,
    ) -> R {
        match self {
            Self::H1(protocol) => h1(protocol, with),
            Self::H2(protocol) => h2(protocol, with),
        }
    }

    /// What carries the connection's bytes.
    pub(crate) fn transport(&self) -> &TransportInfo {
        self.ask(|h1| &h1.transport, |h2| &h2.transport)
    }

    pub(crate) fn transport_mut(&mut self) -> &mut TransportInfo {
        self.call((), |h1, ()| &mut h1.transport, |h2, ()| &mut h2.transport)
    }

    /// The exchange of this number, if it is under way.
    pub(crate) fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        self.ask(|h1| h1.exchange(id), |h2| h2.exchange(id))
    }

    pub(crate) fn exchange_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.call(id, Http1::exchange_mut, Http2::exchange_mut)
    }

    /// How many bytes of an exchange's response have not been sent.
    pub(crate) fn waiting_bytes(&self, id: ExchangeId) -> usize {
        self.ask(Http1::waiting_bytes, |h2| h2.waiting_bytes(id))
    }

    /// Whether the client has sent no more than one request, and receives nothing. Otherwise no program gets its socket: what else
    /// is sent or received would be lost, or land in the middle of the response.
    pub(crate) fn is_alone(&self) -> bool {
        self.ask(Http1::is_alone, |_| false)
    }

    /// A program has the client's socket.
    pub(crate) fn detach(&mut self, cx: &mut Context<'_>) {
        self.call(cx, Http1::detach, |_, _| {});
    }

    /// Gives an exchange's upstream the part of the request's body that has arrived.
    pub(crate) fn feed(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        self.call(cx, Http1::feed, |h2, cx| h2.feed(id.stream(), cx));
    }

    /// An upstream has acted, so the client may get something.
    pub(crate) fn upstream_event(&mut self, id: ExchangeId, event: UpstreamEvent<'_>, cx: &mut Context<'_>) {
        self.call(cx, |h1, cx| h1.upstream_event(id, event, cx), |h2, cx| h2.upstream_event(id, event, cx));
    }

    /// Ends an exchange that fails.
    pub(crate) fn give_up(&mut self, id: ExchangeId, fault: GatewayError, cx: &mut Context<'_>) {
        self.call(cx, |h1, cx| h1.give_up(fault, cx), |h2, cx| h2.give_up(id.stream(), fault, cx));
    }
}
