//! The wire protocols that a connection can speak: HTTP/1 and HTTP/2.
//!
//! A protocol turns bytes into requests, and responses into bytes. It knows when its connection may be closed. An
//! [exchange](crate::exchange) finds the response to a request.

pub(crate) mod h1;
pub(crate) mod h2;

use self::h1::Http1;
use self::h2::Http2;
use crate::exchange::upstream::UpstreamExchange;
use crate::exchange_id::ExchangeId;
use crate::transport::TransportInfo;

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

    /// The exchange of this number with its upstream, if it has one.
    pub(crate) fn upstream_mut(&mut self, id: ExchangeId) -> Option<&mut UpstreamExchange> {
        self.call(id, Http1::upstream_mut, Http2::upstream_mut)
    }
}
