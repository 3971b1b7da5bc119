//! The state of an HTTP/1 connection, from a request's first byte to the connection's end.
//!
//! This module holds the state, and breaks the connection off. The files beside it change the state.

use std::sync::Arc;

use super::client::ClientSide;
use super::drop_body::DropBody;
use super::framing::Framing;
use super::persistence::Persistence;
use super::request_body::RequestBody;
use crate::clients::deadline::{Deadline, Waiting};
use crate::clients::linger::Linger;
use crate::clients::pace::Pace;
use crate::clock::Now;
use crate::connection::context::Context;
use crate::connection::idle_state::IdleState;
use crate::connection::output::Output;
use crate::connection::transport::TransportInfo;
use crate::exchange::admission::Passed;
use crate::exchange::body::Piece;
use crate::exchange::decide::Waited;
use crate::exchange::id::ExchangeId;
use crate::exchange::upstream::UpstreamExchange;
use crate::exchange::{Exchange, ExchangeState};
use crate::record::counters::Count;
use crate::server::Settings;
use crate::site::Site;

#[derive(Debug)]
pub(crate) struct Http1 {
    pub(in crate::protocol) transport: TransportInfo,
    pub(super) phase: Phase,
    /// The id of the last exchange.
    pub(super) last_id: ExchangeId,
    /// Bytes of a request that cannot be answered yet. Empty, without memory, on an idle connection.
    pub(super) input: Vec<u8>,
    /// Set only while there is something to send.
    pub(super) output: Option<Box<Output>>,
    pub(super) deadline: Deadline,
    /// How fast the client gets the response under way, if there is a limit.
    pub(super) pace: Option<Box<Pace>>,
}

/// The connection's phase: reading a request, answering it, or closing.
#[derive(Debug)]
pub(super) enum Phase {
    /// Between requests, or within a head.
    ReadRequest,
    /// The request's body is of no use, and is dropped as it arrives.
    DropBody(Box<DropBody>),
    /// The body was dropped. Its request's head is at the front of `input` again, and can be answered.
    BodyDropped(Box<Passed>),
    /// A request waits. During its look-up, its head is at the front of `input`.
    Exchange(Box<Current>),
    /// A program has answered with a local redirection. The new head is at the front of `input`.
    Redirected(Box<Exchange>),
    /// A program writes to the client itself.
    Detached,
    /// The output holds the last bytes.
    Closing {
        linger: bool,
    },
    /// RFC 9112 §9.6: if the server closed with bytes unread, the kernel would reset the connection, and drop the response.
    Lingering {
        linger: Linger,
        why: Why,
    },
    Closed,
    /// The client was too slow.
    CutOff,
}

/// Why a connection stays open after its last byte has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The client may still be sending.
    Unread,
    /// The kernel holds much of the response, so the client's speed still matters.
    Unflushed,
}

/// The exchange under way, with HTTP/1's part of it.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) exchange: Exchange,
    /// The part of the request's body that has not arrived.
    pub(super) body: RequestBody,
    /// How the response is framed, and whether the connection stays open.
    pub(super) framing: Framing,
    /// Which of the client's directions would block while an upstream answers.
    pub(super) client: ClientSide,
}

impl Phase {
    /// What a request that has waited brings along: the site of its host, and what is known of it. A new request brings nothing.
    pub(super) fn waited(&mut self) -> (Option<&Arc<Site>>, Waited<'_>) {
        match self {
            Self::Exchange(current) => current.exchange.waited(),
            Self::Redirected(exchange) => exchange.waited(),
            Self::BodyDropped(passed) => {
                (None, Waited { passed: std::mem::take(&mut **passed), ..Waited::default() })
            }
            _ => (None, Waited::default()),
        }
    }

    /// The phase after a whole response.
    pub(super) fn after(persistence: Persistence) -> Self {
        if persistence.stays_open() { Self::ReadRequest } else { Self::Closing { linger: false } }
    }
}

impl Http1 {
    pub(crate) fn new(transport: TransportInfo, settings: &Settings, now: &Now) -> Self {
        let mut deadline = Deadline::default();
        deadline.start(Waiting::Head, now.ms(), settings);
        Self {
            transport,
            phase: Phase::ReadRequest,
            last_id: ExchangeId::default(),
            input: Vec::new(),
            output: None,
            deadline,
            pace: None,
        }
    }

    /// `None` unless the connection is between two requests.
    pub(crate) fn idle_state(&self) -> Option<IdleState> {
        // The keys of TLS stay in the process that has made them.
        (self.is_idle() && self.transport.tls.is_none())
            .then(|| IdleState::with(self.transport, &self.deadline))
    }

    /// Goes on with a connection that was idle in another process.
    pub(crate) fn from_idle(state: IdleState) -> Option<Self> {
        let (transport, deadline) = state.parts()?;
        Some(Self {
            transport,
            phase: Phase::ReadRequest,
            last_id: ExchangeId::default(),
            input: Vec::new(),
            output: None,
            deadline,
            pace: None,
        })
    }

    pub(crate) fn transport(&self) -> &TransportInfo {
        &self.transport
    }

    /// Whether nothing more is received or sent.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::CutOff)
    }

    /// Whether the client of an idle connection has never sent a request: its first head is due.
    pub(crate) fn has_received_nothing(&self) -> bool {
        self.deadline.is_for(Waiting::Head)
    }

    /// The bytes of a first request that is not complete.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        &self.input
    }

    pub(crate) fn output(&self) -> Option<&Output> {
        self.output.as_deref()
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::ReadRequest) && self.input.is_empty() && self.output.is_none()
    }

    pub(super) fn upstream(&self) -> Option<&UpstreamExchange> {
        match &self.phase {
            Phase::Exchange(current) => current.exchange.upstream(),
            _ => None,
        }
    }

    /// The exchange with this id, if it is under way.
    pub(crate) fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        match &self.phase {
            Phase::Exchange(current) if current.exchange.id == id => Some(&current.exchange),
            _ => None,
        }
    }

    pub(crate) fn exchange_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        match &mut self.phase {
            Phase::Exchange(current) if current.exchange.id == id => Some(&mut current.exchange),
            _ => None,
        }
    }

    /// How many bytes of responses have not been sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.waiting_bytes())
    }

    /// Whether nothing waits to be read or sent.
    pub(crate) fn is_alone(&self) -> bool {
        self.output.is_none() && self.input.is_empty()
    }

    /// A program has the client's socket.
    pub(crate) fn detach(&mut self, cx: &mut Context<'_>) {
        cx.tally.responses += 1;
        self.phase = Phase::Detached;
    }

    pub(super) fn is_exchanging_with_upstream(&self) -> bool {
        self.upstream().is_some()
    }

    pub(crate) fn client_ready(&mut self) {
        if let Phase::Exchange(current) = &mut self.phase {
            current.client.ready();
        }
    }

    /// Keeps bytes of a request that cannot be answered yet.
    pub(super) fn keep(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        if self.input.capacity() == 0 {
            self.input = cx.buffers.input();
        }
        self.input.extend_from_slice(bytes);
    }

    /// Ends the connection at once, and records its exchange.
    pub(crate) fn abort(&mut self, cx: &mut Context<'_>) {
        let record = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Exchange(current) => {
                cx.tally.counts.add(Count::Abandoned, u64::from(current.exchange.has_no_response()));
                if let ExchangeState::Upstream(upstream) = current.exchange.state {
                    upstream.break_off(cx);
                }
                current.exchange.record
            }
            _ => None,
        };
        if let Some(mut output) = self.output.take() {
            output.abandon(cx.now.us, cx.tally);
            if let Some(unfinished) = record {
                cx.tally.end(unfinished.cut(output.response_bytes_sent(), cx.now.us));
            }
            cx.buffers.give_back_output(output);
        }
        (self.input, self.pace) = (Vec::new(), None);
    }

    /// Whether the client has had what its rate allows for now. The response goes on later.
    pub(super) fn is_paced(&mut self, now_us: u64) -> bool {
        let Some(pace) = &mut self.pace else { return false };
        let in_output = self.output.as_ref().map_or(0, |output| output.all_bytes());
        let waiting = match &self.phase {
            Phase::Exchange(current) => match &current.exchange.state {
                // A window is no larger than what may be sent.
                ExchangeState::Body(body) if body.piece == Piece::Wanted => {
                    in_output.saturating_add(body.bytes_left())
                }
                _ => in_output,
            },
            _ => in_output,
        };
        pace.allows(waiting, now_us) == 0 && waiting > 0
    }
}

/// For tests.
#[cfg(test)]
impl Http1 {
    pub(crate) fn input(&self) -> &Vec<u8> {
        &self.input
    }

    pub(crate) fn holds_output(&self) -> bool {
        self.output.is_some()
    }

    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing { .. } | Phase::Closed)
    }

    pub(crate) fn set_peer(&mut self, peer: crate::record::Peer) {
        self.transport.peer = peer;
    }
}
