//! The trace that a request belongs to (W3C Trace Context): for the access log, and for the program that answers.
//!
//! Flash sends spans nowhere. Its access log can stand for them, if something reads it as spans.

use flash_cgi::Variables;
use flash_http::head::RequestHead;
use flash_http::trace_context::TraceParent;

use crate::record::request_id::RequestId;

/// What Flash does with the traces that requests belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceContext {
    /// Programs are told what the client has said. Flash has no span, so no span lacks its parent.
    #[default]
    PassThrough,
    /// Flash has a span in each trace, and programs are told that one.
    Participate,
    /// The same. A request without a trace begins one.
    Always,
}

/// The span of a trace that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace_id: [u8; 16],
    /// Flash's own, if it takes part. If not, the client's.
    pub span_id: [u8; 8],
    /// The client's, if Flash takes part and the client has one.
    pub parent_id: Option<[u8; 8]>,
    flags: u8,
}

impl TraceContext {
    /// The span of a request. None if the request belongs to no trace.
    #[inline]
    pub(crate) fn span(self, head: &RequestHead<'_>, id: RequestId) -> Option<Span> {
        match (head.traceparent.and_then(TraceParent::parse), self) {
            (None, Self::PassThrough | Self::Participate) => None,
            // Both would do: the id is random enough for a trace, and its own part for a span.
            (None, Self::Always) => {
                let flags = TraceParent::SAMPLED | TraceParent::RANDOM;
                Some(Span { trace_id: id.to_bytes(), span_id: id.span_id(), parent_id: None, flags })
            }
            (Some(TraceParent { trace_id, parent_id, flags }), Self::PassThrough) => {
                Some(Span { trace_id, span_id: parent_id, parent_id: None, flags })
            }
            (Some(TraceParent { trace_id, parent_id, flags }), Self::Participate | Self::Always) => {
                Some(Span { trace_id, span_id: id.span_id(), parent_id: Some(parent_id), flags })
            }
        }
    }

    /// What an upstream is told of the trace.
    pub(crate) fn told(self, head: &RequestHead<'_>, id: RequestId) -> Told {
        let is_valid = head.traceparent.and_then(TraceParent::parse).is_some();
        let span = self.span(head, id).filter(|_| self != Self::PassThrough);
        let own = span.map(|Span { trace_id, span_id, flags, .. }| TraceParent {
            trace_id,
            parent_id: span_id,
            flags,
        });
        Told { is_valid, own }
    }

    /// Makes the program's variables say which span it belongs to.
    pub(crate) fn tell(self, variables: &mut Variables, head: &RequestHead<'_>, id: RequestId) {
        let Told { is_valid, own } = self.told(head, id);
        if !is_valid {
            variables.remove(&[PARENT, STATE]);
        }
        if let Some(parent) = own {
            variables.remove(&[PARENT]);
            variables.push(PARENT, parent.to_value().as_bytes());
        }
    }
}

/// What an upstream is told of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Whether the client's `traceparent` is valid. If not, it is not passed on, and neither is the `tracestate` beside it (§3.3.1).
    pub(crate) is_valid: bool,
    /// What takes the place of the client's.
    pub(crate) own: Option<TraceParent>,
}

const PARENT: &[u8] = b"HTTP_TRACEPARENT";
const STATE: &[u8] = b"HTTP_TRACESTATE";
