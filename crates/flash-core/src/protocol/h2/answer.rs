//! Answering a request: a response is written at once, or the request becomes an exchange on a stream. A malformed request is
//! refused.

use flash_h2::frame::PAYLOAD_BYTES_MAX;
use flash_h2::{ErrorCode, Priority};
use flash_http::head::{self, Body, Expect, Head, Limits, Reject};
use flash_http::status::Status;

use super::pieces::Pieces;
use super::sink::Sink;
use super::state::{Http2, RequestBody, StreamState};
use crate::connection::context::Context;
use crate::exchange::answer::{Answer, Next, Program};
use crate::exchange::decide::{self, Decision};
use crate::exchange::hand_off::HandOff;
use crate::exchange::id::ExchangeId;
use crate::exchange::passed_id::PassedId;
use crate::exchange::sink::BodySink;
use crate::exchange::upstream::{GatewayError, Request, RequestBodyLength, UpstreamExchange};
use crate::exchange::{Exchange, ExchangeState};
use crate::record::counters::Count;

/// A request that is being answered.
struct Arrived<'h> {
    id: u32,
    priority: Priority,
    /// The client has ended its side.
    has_ended: bool,
    text: &'h [u8],
    head: &'h Head<'h>,
}

impl Http2 {
    /// A request has arrived, whose head is `text`.
    pub(super) fn request(
        &mut self,
        id: u32,
        priority: Priority,
        has_ended: bool,
        text: &[u8],
        cx: &mut Context<'_>,
    ) {
        let mut head = match head::parse_http2(text, &cx.server.settings.head) {
            Ok(head) => head,
            Err(reject) => return self.refuse(id, has_ended, reject, text, cx),
        };
        match (has_ended, head.body) {
            // RFC 9113 §8.1.1.
            (true, Body::Length(_)) => return self.client_error(id, ErrorCode::PROTOCOL_ERROR, cx),
            (true, _) | (false, Body::Length(_)) => {}
            // The parser takes a length of 0 for no body. Here, frames without bytes follow.
            (false, Body::None) if head.fields.into_iter().any(|(name, _)| name == b"content-length") => {
                head.request.body = Body::Length(0);
            }
            (false, Body::None | Body::Chunked) => head.request.body = Body::Chunked,
        }
        self.answer(Arrived { id, priority, has_ended, text, head: &head }, None, cx);
    }

    /// The look-up of a stream's request has ended.
    pub(super) fn go_on(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let (priority, has_ended) = (stream.priority, stream.has_ended());
        let text = std::mem::take(&mut stream.user.head);
        let Some(exchange) = stream.user.exchange.take() else { return };
        let length = stream.user.body.length;
        // A reload may have lowered the limits since the head came.
        let mut head = head::parse_http2(&text, &Limits::NONE).expect("the head was parsed when it came");
        if length == RequestBodyLength::Unknown {
            head.request.body = Body::Chunked;
        }
        self.answer(Arrived { id, priority, has_ended, text: &text, head: &head }, Some(exchange), cx);
    }

    fn answer(&mut self, arrived: Arrived<'_>, mut exchange: Option<Exchange>, cx: &mut Context<'_>) {
        cx.tally.counts.add(Count::Begun, u64::from(exchange.is_none()));
        let waited = exchange.as_mut().map(Exchange::waited).unwrap_or_default();
        // The end of a stream is no matter of its body: the next request has a stream of its own.
        let (next, decision) = decide::decide(arrived.head, waited, (&self.transport, cx.server), false, cx);
        match next {
            Next::Respond { answer, age_s } => self.respond(&arrived, (answer, age_s), decision, cx),
            Next::Login(login) => self.begin_exchange(&arrived, ExchangeState::Login(login), decision),
            Next::Lookup(lookup) => self.begin_exchange(&arrived, ExchangeState::Lookup(lookup), decision),
            Next::Upstream(program) => self.run_program(&arrived, &program, decision, cx),
            Next::Wait | Next::DropBody => {
                cx.tally.counts.add(Count::Abandoned, 1);
                self.reset(arrived.id, ErrorCode::INTERNAL_ERROR, cx);
            }
        }
    }

    /// Writes a response as far as the client's window allows. What is left is kept on the stream.
    fn respond(
        &mut self,
        arrived: &Arrived<'_>,
        answer: (Answer, Option<u64>),
        decision: Decision<'_>,
        cx: &mut Context<'_>,
    ) {
        let (id, head) = (arrived.id, arrived.head);
        self.empties_table |= self.session.empties_table();
        let pace = decision.pace(head, &self.transport, cx);
        // With a pace, the whole body waits in the pieces.
        let window =
            if pace.is_some() { 0 } else { self.session.streams().window(id).min(PAYLOAD_BYTES_MAX) };
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let mut pieces = std::mem::take(&mut self.pieces);
        let request_id = decision.passed_id(head, &self.transport, cx.server);
        let mut sink = Sink::new(output, &mut pieces, id, &mut self.empties_table, window)
            .tells(request_id.as_ref().map(PassedId::as_bytes));
        let (rest, record) = decision.respond(head, answer, &self.transport, &mut sink, cx);
        let is_paced = pace.is_some();
        let at_once = match (rest.is_none(), sink.written_at_once) {
            (true, Some(bytes)) => Some(bytes),
            (true, None) if sink.is_empty() => {
                sink.end_with_head();
                Some(0)
            }
            (true, None) => {
                pieces.is_complete = true;
                (pieces.bytes() <= window as u64).then(|| pieces.write_frame(id, window, output))
            }
            (false, _) => None,
        };
        match at_once {
            Some(bytes) => {
                output.push_stream_end(record, bytes as u64);
                pieces.is_complete = false;
                self.pieces = pieces;
                self.session.sent(id, bytes);
                if !arrived.has_ended {
                    // The rest of the request has a stream to come on.
                    self.state(arrived);
                    self.drop_body(id);
                }
                self.finish(id, arrived.has_ended, cx);
            }
            None => {
                let number = ExchangeId::of_stream(id);
                let exchange =
                    rest.map(|body| Exchange::new(decision, number, ExchangeState::Body(body), head));
                let state = self.state(arrived);
                (state.pieces, state.exchange, state.record) = (pieces, exchange, Some(record));
                state.pace = pace;
                self.has_paces |= is_paced;
                self.drop_body(id);
            }
        }
    }

    /// The stream's state. A request that has just arrived gets a stream here.
    fn state(&mut self, arrived: &Arrived<'_>) -> &mut StreamState {
        let id = arrived.id;
        if self.session.streams().get(id).is_none() {
            let (length, left) = match (arrived.has_ended, arrived.head.body) {
                (true, _) => (RequestBodyLength::None, None),
                (false, Body::Length(bytes)) => (RequestBodyLength::Known, Some(bytes)),
                (false, _) => (RequestBodyLength::Unknown, None),
            };
            let body = RequestBody { length, left, has_ended: arrived.has_ended, ..RequestBody::new() };
            let state = StreamState::new(Box::default(), body);
            self.session.open(id, arrived.priority, arrived.has_ended, state);
        }
        &mut self.session.streams_mut().get_mut(id).expect("it is open").user
    }

    /// The request has to wait: it becomes an exchange, or its exchange gets a new state.
    fn begin_exchange(&mut self, arrived: &Arrived<'_>, state: ExchangeState, decision: Decision<'_>) {
        let exchange = Exchange::new(decision, ExchangeId::of_stream(arrived.id), state, arrived.head);
        let state = self.state(arrived);
        state.head = arrived.text.into();
        state.exchange = Some(exchange);
    }

    fn run_program(
        &mut self,
        arrived: &Arrived<'_>,
        program: &Program,
        decision: Decision<'_>,
        cx: &mut Context<'_>,
    ) {
        let id = arrived.id;
        let request = Request::new(arrived.head, arrived.text, program);
        let length = self.state(arrived).body.length;
        let upstream =
            UpstreamExchange::new(ExchangeId::of_stream(id), (request, arrived.head), length, decision.site);
        // The program starts when the request's body is complete, so the client must not wait for the program.
        let leave = upstream.spools() && arrived.head.expect == Expect::Continue;
        self.begin_exchange(arrived, ExchangeState::Upstream(Box::new(upstream)), decision);
        if leave {
            self.tell_to_continue(id, cx);
        }
        self.feed(id, cx);
    }

    /// Sends a 100 response (RFC 9110 §10.1.1).
    pub(super) fn tell_to_continue(&mut self, id: u32, cx: &mut Context<'_>) {
        self.empties_table |= self.session.empties_table();
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        Sink::new(output, &mut self.pieces, id, &mut self.empties_table, 0).interim(Status::CONTINUE);
    }

    /// Answers a head that is no request. The log shows the part of it that there is.
    pub(super) fn refuse(
        &mut self,
        id: u32,
        has_ended: bool,
        reject: Reject,
        text: &[u8],
        cx: &mut Context<'_>,
    ) {
        self.empties_table |= self.session.empties_table();
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let mut pieces = std::mem::take(&mut self.pieces);
        let sink = &mut Sink::new(output, &mut pieces, id, &mut self.empties_table, 0);
        let record = Some(decide::refuse(reject, text, self.transport.peer, sink, cx));
        cx.tally.counts.add(Count::Begun, 1);
        pieces.is_complete = true;
        let body = RequestBody { has_ended, ..RequestBody::new() };
        let state = StreamState { pieces, record, ..StreamState::new(Box::default(), body) };
        self.session.open(id, Priority::default(), has_ended, state);
    }

    /// Ends an exchange that fails. A client that has received nothing gets an error page, and one whose response is complete
    /// gets all of it. Otherwise the stream is reset.
    pub(crate) fn give_up(&mut self, id: u32, fault: GatewayError, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let (priority, has_ended) = (stream.priority, stream.has_ended());
        let Some(upstream) = stream.user.upstream_mut() else { return };
        if upstream.fails(fault, cx) {
            return self.upstream_done(id, cx);
        }
        let has_begun = upstream.reply.has_begun();
        if has_begun {
            // A head that is the last of what waits can be another one. Its body is in the pieces.
            let last =
                upstream.head_at.filter(|(_, end)| self.output.as_ref().is_some_and(|of| of.mark() == *end));
            let output = self.output.as_mut();
            if !last.zip(output).is_some_and(|((begins_at, _), output)| output.take_back(begins_at)) {
                return self.reset(id, ErrorCode::INTERNAL_ERROR, cx);
            }
            stream.user.pieces = Pieces::default();
            stream.user.record = None;
        }
        let Some(Exchange {
            site, terms, state: ExchangeState::Upstream(upstream), timing, redirects, ..
        }) = stream.user.exchange.take()
        else {
            return;
        };
        let request = upstream.break_off(cx);
        let head = request.parse();
        let arrived = Arrived { id, priority, has_ended, text: &request.head, head: &head };
        let answer = (Answer::Error(fault.status), None);
        self.respond(&arrived, answer, Decision::again(&site, terms, timing, redirects), cx);
        // The response that was taken back was counted, too.
        cx.tally.responses -= u64::from(has_begun);
    }

    /// A program has redirected to another path (RFC 3875 §6.2.2): `text` is the head of that request.
    pub(super) fn redirect(
        &mut self,
        id: u32,
        text: &[u8],
        hand_off: Option<Box<HandOff>>,
        cx: &mut Context<'_>,
    ) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let (priority, has_ended) = (stream.priority, stream.has_ended());
        stream.user.body.length = RequestBodyLength::None;
        let exchange = stream.user.exchange.take();
        let exchange = exchange.map(|of| Exchange { passed: of.passed.redirected(hand_off), ..of });
        let Ok(head) = head::parse_http2(text, &cx.server.settings.head) else {
            cx.tally.counts.add(Count::Abandoned, 1);
            return self.reset(id, ErrorCode::INTERNAL_ERROR, cx);
        };
        self.answer(Arrived { id, priority, has_ended, text, head: &head }, exchange, cx);
    }
}
