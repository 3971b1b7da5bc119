//! The state of an HTTP/2 connection and of its streams.
//!
//! This module holds the state, and breaks streams and the connection off. The files beside it change the state.

use bytes::Bytes;
use flash_h2::request::HeadLimits;
use flash_h2::session::Limits;
use flash_h2::{ConnectionError, ErrorCode, Session, Stream};

use super::pieces::Pieces;
use crate::clients::deadline::{Deadline, Waiting};
use crate::clients::linger::Linger;
use crate::clients::pace::Pace;
use crate::clock::Now;
use crate::connection::context::Context;
use crate::connection::output::Output;
use crate::connection::transport::TransportInfo;
use crate::exchange::body::Piece;
use crate::exchange::id::ExchangeId;
use crate::exchange::upstream::{RequestBodyLength, UpstreamExchange};
use crate::exchange::{Exchange, ExchangeState};
use crate::record::RecordBuilder;
use crate::record::counters::Count;
use crate::server::Settings;

#[derive(Debug)]
pub(crate) struct Http2 {
    pub(in crate::protocol) transport: TransportInfo,
    pub(super) session: Session<StreamState>,
    pub(super) phase: Phase,
    /// Bytes that have not been read, because too much waits to be sent.
    pub(super) input: Vec<u8>,
    /// Set only while there is something to send.
    pub(super) output: Option<Box<Output>>,
    /// The body of a response that is written at once. Empty between two calls.
    pub(super) pieces: Pieces,
    pub(super) client: ClientSide,
    /// A job makes ready what the output misses, and whether it has to copy that.
    pub(super) restores: bool,
    pub(super) restores_copy: bool,
    /// The next header block empties the client's dynamic table.
    pub(super) empties_table: bool,
    pub(super) draining: Draining,
    /// The stream whose upstream has moved last.
    pub(super) last_upstream: u32,
    /// Of the connection: for the client to send, or to take what is sent.
    pub(super) deadline: Deadline,
    /// Since when no request is under way, and no response on its way to the client. Control frames are no sign of life.
    pub(super) idle_from_ms: Option<u64>,
    /// The earliest of all deadlines.
    pub(super) due_ms: u64,
    /// Some stream has had a pace.
    pub(super) has_paces: bool,
    /// When a stream may send more, if its client's rate is what it waits for.
    pub(super) paced_until_us: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The output holds the last bytes.
    Closing,
    /// The client may still be sending, see [`h1`](crate::protocol::h1).
    Lingering(Linger),
    Closed,
    /// The client was too slow.
    CutOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draining {
    No,
    /// The client has been told, and may send requests until it answers, or until this time.
    Told {
        until_ms: u64,
    },
    /// The client knows which request was the last.
    LastKnown,
}

/// The client's two directions.
#[derive(Debug, Default)]
pub(super) struct ClientSide {
    pub(super) in_blocked: bool,
    pub(super) out_blocked: bool,
    /// The client has shut down its side.
    pub(super) has_ended: bool,
}

/// A stream whose response takes longer than a call.
#[derive(Debug)]
pub(super) struct StreamState {
    /// The request's head, as HTTP/1 writes it.
    pub(super) head: Box<[u8]>,
    /// `None` once the whole response is in the pieces.
    pub(super) exchange: Option<Exchange>,
    pub(super) pieces: Pieces,
    /// The end of the response is in the output.
    pub(super) is_sent: bool,
    pub(super) body_bytes_sent: u64,
    pub(super) record: Option<RecordBuilder>,
    pub(super) body: RequestBody,
    pub(super) deadline: Deadline,
    /// How fast the client gets the response, if there is a limit.
    pub(super) pace: Option<Box<Pace>>,
    /// The response is sent, and the rest of the request is dropped.
    pub(super) linger: Option<Linger>,
}

/// A request's body, as far as it has arrived.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) length: RequestBodyLength,
    /// The rest of its length, if the head gave one.
    pub(super) left: Option<u64>,
    pub(super) received: u64,
    pub(super) has_ended: bool,
    /// Bytes that the exchange has not taken.
    pub(super) waiting: Vec<u8>,
    /// Lines of trailer fields.
    pub(super) trailers: Box<[u8]>,
}

impl RequestBody {
    /// Of a length that only its end says.
    pub(super) fn new() -> Self {
        let (length, left, received, has_ended) = (RequestBodyLength::Unknown, None, 0, false);
        Self { length, left, received, has_ended, waiting: Vec::new(), trailers: Box::default() }
    }
}

/// RFC 9113 §6.5.2 recommends at least 100.
const STREAMS_MAX: u32 = 128;
/// Crumbs of cookies are fields too, until they are put together.
const CRUMBS_PER_FIELD: usize = 4;

impl StreamState {
    pub(super) fn new(head: Box<[u8]>, body: RequestBody) -> Self {
        Self {
            head,
            exchange: None,
            pieces: Pieces::default(),
            is_sent: false,
            body_bytes_sent: 0,
            record: None,
            body,
            deadline: Deadline::default(),
            pace: None,
            linger: None,
        }
    }

    /// How many bytes of the body may be sent now.
    pub(super) fn allowed(&self) -> u64 {
        self.pace.as_ref().map_or(u64::MAX, |pace| pace.allowed())
    }

    pub(super) fn upstream_mut(&mut self) -> Option<&mut UpstreamExchange> {
        self.exchange.as_mut()?.upstream_mut()
    }

    /// Continues with a stored response, if the client has taken what was ready.
    pub(super) fn send_stored(&mut self) {
        let Self { exchange, pieces, .. } = self;
        let Some(upstream) = exchange.as_mut().and_then(Exchange::upstream_mut) else { return };
        if pieces.is_empty() {
            upstream.next_part(|part| pieces.push_bytes(Bytes::copy_from_slice(part), None));
        }
        pieces.is_complete = upstream.is_whole();
        upstream.make_room(pieces.bytes() as usize);
    }

    /// When something is too late for the stream.
    pub(super) fn due_ms(&self) -> u64 {
        let upstream = self.exchange.as_ref().and_then(Exchange::upstream);
        upstream.map_or(u64::MAX, UpstreamExchange::deadline_ms).min(self.deadline.ms())
    }

    /// Whether bytes of a body wait, or will be asked for as soon as the client's windows are open again.
    pub(super) fn has_data(&self) -> bool {
        let state = self.exchange.as_ref().map(|exchange| &exchange.state);
        self.pieces.bytes() > 0
            || matches!(state, Some(ExchangeState::Body(body)) if body.piece == Piece::Wanted)
    }

    /// Whether a window of a file is in memory for it, or will be.
    pub(super) fn holds_window(&self) -> bool {
        let is_asked = match self.exchange.as_ref().map(|exchange| &exchange.state) {
            Some(ExchangeState::Body(body)) => body.piece == Piece::Asked,
            _ => false,
        };
        is_asked || self.pieces.has_window()
    }
}

impl Http2 {
    pub(crate) fn new(transport: TransportInfo, settings: &Settings, now: &Now) -> Self {
        let mut deadline = Deadline::default();
        deadline.start(Waiting::Head, now.ms(), settings);
        let head = HeadLimits {
            bytes_max: settings.head.head_bytes_max,
            fields_max: settings.head.fields_max * CRUMBS_PER_FIELD,
        };
        let limits = Limits { streams_max: STREAMS_MAX, head, resets: (400, 33), idle_frames: (2_000, 200) };
        Self {
            transport,
            session: Session::new(limits),
            phase: Phase::Open,
            input: Vec::new(),
            output: None,
            pieces: Pieces::default(),
            client: ClientSide::default(),
            restores: false,
            restores_copy: false,
            empties_table: false,
            draining: Draining::No,
            last_upstream: 0,
            due_ms: deadline.ms(),
            deadline,
            idle_from_ms: None,
            has_paces: false,
            paced_until_us: None,
        }
    }

    /// The exchange of this number, if it is under way.
    pub(crate) fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        self.session.streams().get(id.stream())?.user.exchange.as_ref()
    }

    pub(crate) fn exchange_mut(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        self.session.streams_mut().get_mut(id.stream())?.user.exchange.as_mut()
    }

    /// How many bytes of an exchange's response are not in the output.
    pub(crate) fn waiting_bytes(&self, id: ExchangeId) -> usize {
        self.session.streams().get(id.stream()).map_or(0, |stream| stream.user.pieces.bytes() as usize)
    }

    /// Whether nothing more is received or sent.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::CutOff)
    }

    pub(crate) fn output(&self) -> Option<&Output> {
        self.output.as_deref()
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Open && !self.is_exchanging() && !self.session.is_within()
    }

    /// Whether something may happen that is not the client's doing.
    pub(crate) fn is_exchanging(&self) -> bool {
        let has_output = self.output.as_ref().is_some_and(|output| !output.is_empty());
        has_output || !self.session.streams().is_empty() || self.session.has_control()
    }

    /// Whether a request has been answered, and the next one has not begun.
    pub(crate) fn is_between_requests(&self) -> bool {
        self.is_idle() && !self.session.is_new()
    }

    pub(crate) fn client_ready(&mut self) {
        (self.client.in_blocked, self.client.out_blocked) = (false, false);
    }

    /// Every socket may be ready.
    pub(super) fn all_ready(&mut self) {
        self.client_ready();
        for stream in self.session.streams_mut().iter_mut() {
            if let Some(upstream) = stream.user.exchange.as_mut().and_then(Exchange::upstream_mut) {
                upstream.upstream_ready();
            }
        }
    }

    /// The socket has nothing to read for now. Returns whether the connection may want something else meanwhile.
    pub(crate) fn receive_blocked(&mut self) -> bool {
        let goes_on = self.phase == Phase::Open && self.is_exchanging();
        self.client.in_blocked = goes_on;
        goes_on
    }

    /// Puts the session's own frames behind what is in the output.
    #[inline]
    pub(super) fn write_control(&mut self, cx: &mut Context<'_>) {
        if self.session.has_control() {
            let output = self.output.get_or_insert_with(|| cx.buffers.output());
            output.write(|out| self.session.take_control(out));
        }
    }

    pub(super) fn give_back_output(&mut self, cx: &mut Context<'_>) {
        if let Some(output) = self.output.take_if(|output| output.is_empty()) {
            cx.buffers.give_back_output(output);
        }
    }

    /// The whole response of a stream is in its pieces. The end of the stream is sent with its last byte.
    pub(super) fn end_exchange(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        stream.user.exchange = None;
        let (is_sent, has_ended) = (stream.user.is_sent, stream.has_ended());
        self.drop_body(id);
        if is_sent {
            self.finish(id, has_ended, cx);
        }
    }

    /// The response of a stream is complete. If its request is not, the stream and its window stay open for a while: a client may read
    /// the response only after it has sent the rest, which is dropped. Then the client is told to stop (RFC 9113 §8.1).
    pub(super) fn finish(&mut self, id: u32, has_ended: bool, cx: &mut Context<'_>) {
        if !has_ended
            && !self.client.has_ended
            && let Some(stream) = self.session.streams_mut().get_mut(id)
            && !stream.user.linger.get_or_insert_with(|| Linger::begin(cx.now.ms())).is_over(cx.now.ms())
        {
            let state = &mut stream.user;
            (state.is_sent, state.exchange) = (true, None);
            return self.drop_body(id);
        }
        if let Some(stream) = self.session.finish(id, has_ended) {
            self.over(stream, cx);
        }
    }

    /// The rest of the request's body is of no use.
    pub(super) fn drop_body(&mut self, id: u32) {
        if let Some(stream) = self.session.streams_mut().get_mut(id) {
            let dropped = std::mem::take(&mut stream.user.body.waiting);
            self.session.consumed(id, dropped.len());
        }
    }

    /// Ends a stream before its end.
    pub(super) fn reset(&mut self, id: u32, code: ErrorCode, cx: &mut Context<'_>) {
        if let Some(stream) = self.session.reset(id, code) {
            self.over(stream, cx);
        }
    }

    /// The client has broken a rule on a stream.
    pub(super) fn client_error(&mut self, id: u32, code: ErrorCode, cx: &mut Context<'_>) {
        match self.session.client_error(id, code, cx.now.ms()) {
            Ok(stream) => stream.into_iter().for_each(|stream| self.over(stream, cx)),
            Err(error) => self.fail(error, cx),
        }
    }

    /// A stream is gone. Records what has no record yet, and releases what it held.
    pub(super) fn over(&mut self, stream: Box<Stream<StreamState>>, cx: &mut Context<'_>) {
        let Stream { id, user: StreamState { exchange, record, body, body_bytes_sent, .. }, .. } = *stream;
        self.session.consumed(id, body.waiting.len());
        cx.tally
            .counts
            .add(Count::Abandoned, u64::from(exchange.as_ref().is_some_and(Exchange::has_no_response)));
        if let Some(Exchange { state: ExchangeState::Upstream(upstream), .. }) = exchange {
            upstream.break_off(cx);
        }
        if let Some(record) = record {
            cx.tally.end(record.cut(body_bytes_sent, cx.now.us));
        }
    }

    fn all_over(&mut self, cx: &mut Context<'_>) {
        let ids: Vec<u32> = self.session.streams().iter().map(|stream| stream.id).collect();
        for id in ids {
            self.finish(id, true, cx);
        }
    }

    /// The connection cannot go on. The client is told why.
    pub(super) fn fail(&mut self, error: ConnectionError, cx: &mut Context<'_>) {
        self.all_over(cx);
        self.session.fail(error);
        self.input = Vec::new();
        self.phase = Phase::Closing;
    }

    /// Its client has too many connections.
    pub(crate) fn refuse_one_too_many(&mut self, cx: &mut Context<'_>) {
        let (code, reason) = (ErrorCode::ENHANCE_YOUR_CALM, "too many connections of one client");
        self.fail(ConnectionError { code, reason }, cx);
    }

    /// Ends the connection at once, and records its exchanges.
    pub(crate) fn abort(&mut self, cx: &mut Context<'_>) {
        self.all_over(cx);
        self.phase = Phase::Closed;
        self.input = Vec::new();
        if let Some(mut output) = self.output.take() {
            output.abandon(cx.now.us, cx.tally);
            cx.buffers.give_back_output(output);
        }
    }
}
