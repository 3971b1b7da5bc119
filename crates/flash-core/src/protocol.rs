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
    /// What carries the connection's bytes.
    pub(crate) fn transport_mut(&mut self) -> &mut TransportInfo {
        match self {
            Self::H1(h1) => h1.transport_mut(),
            Self::H2(h2) => h2.transport_mut(),
        }
    }

    /// The exchange of this number with its upstream, if it has one.
    pub(crate) fn upstream_mut(&mut self, id: ExchangeId) -> Option<&mut UpstreamExchange> {
        match self {
            Self::H1(h1) => h1.upstream_mut(id),
            Self::H2(h2) => h2.upstream_mut(id),
        }
    }
}
