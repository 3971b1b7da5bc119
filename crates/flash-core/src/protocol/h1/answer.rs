//! Answering a head: a response begins, or the request becomes an exchange that waits for a job or an upstream. A malformed
//! request is refused.

use flash_http::head::{self, Expect, Head, Reject, Version};
use flash_http::status::Status;

use super::client::ClientSide;
use super::drop_body::DropBody;
use super::framing::{BodyFraming, Framing, Sink, write_continue};
use super::persistence::Persistence;
use super::request_body::RequestBody;
use super::state::{Current, Http1, Phase};
use crate::connection::context::Context;
use crate::exchange::answer::{Answer, Next, Program};
use crate::exchange::decide::{self, Decision};
use crate::exchange::id::ExchangeId;
use crate::exchange::passed_id::PassedId;
use crate::exchange::upstream::{GatewayError, Request, UpstreamExchange};
use crate::exchange::{Exchange, ExchangeState};
use crate::record::counters::Count;

pub(super) enum Answered {
    /// The head has been consumed.
    Yes,
    /// The head stays in the input until the look-up is done.
    NotYet,
}

impl Http1 {
    pub(super) fn answer(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        let mut framing = Framing::new(Persistence::after(head, cx.drain.is_on()), head.framing.version);
        let body_waits = self.body_waits(head);
        let (host, waited) = self.phase.waited();
        let host = host.cloned();
        if waited.is_late() {
            // Its job may still end.
            framing.persistence = Persistence::Closes;
        }
        let of = (&self.transport, cx.server);
        let (next, decision) = decide::decide(head, (host.as_ref(), waited), of, body_waits, cx);
        match next {
            Next::Respond { answer, age_s } => {
                // If the body is not read, the beginning of the next request is unknown.
                let linger = match decision.is_refused {
                    true => head.body != head::Body::None || head.expect != Expect::None,
                    false => body_waits,
                };
                self.respond(head, (answer, age_s), decision, framing, linger, cx);
            }
            Next::DropBody => self.drop_body(head, head_bytes, decision, cx),
            Next::Upstream(program) => self.run_program(head, head_bytes, &program, decision, framing, cx),
            Next::Wait => {
                if let Phase::Exchange(current) = &mut self.phase {
                    current.exchange.passed = decision.passed;
                }
                return Answered::NotYet;
            }
            Next::Login(login) => {
                self.begin_exchange(ExchangeState::Login(login), head, decision, framing, cx);
                return Answered::NotYet;
            }
            Next::Lookup(lookup) => {
                self.begin_exchange(ExchangeState::Lookup(lookup), head, decision, framing, cx);
                return Answered::NotYet;
            }
        }
        Answered::Yes
    }

    /// Writes the head of the response into the output, and continues with the body or the next request.
    fn respond(
        &mut self,
        head: &Head<'_>,
        answer: (Answer, Option<u64>),
        decision: Decision<'_>,
        mut framing: Framing,
        linger: bool,
        cx: &mut Context<'_>,
    ) {
        if linger {
            framing.persistence = Persistence::Closes;
        }
        self.pace = decision.pace(head, &self.transport, cx);
        let id = decision.passed_id(head, &self.transport, cx.server);
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let request_id = id.as_ref().map(PassedId::as_bytes);
        let sink = &mut Sink { output, framing: &mut framing, request_id };
        let (rest, record) = decision.respond(head, answer, &self.transport, sink, cx);
        if let Some(body) = rest {
            self.begin_exchange(ExchangeState::Body(body), head, decision, framing, cx);
            if let Phase::Exchange(current) = &mut self.phase {
                current.exchange.record = Some(record);
            }
            return;
        }
        output.push_end(record);
        cx.tally.counts.add(Count::Begun, u64::from(!matches!(self.phase, Phase::Exchange(_))));
        self.phase = if linger { Phase::Closing { linger } } else { Phase::after(framing.persistence) };
    }

    /// The request's body is of no use, but the next request stands behind it.
    fn drop_body(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        Decision { terms, passed, .. }: Decision<'_>,
        cx: &mut Context<'_>,
    ) {
        if head.expect == Expect::Continue {
            self.tell_to_continue(cx);
        }
        // The request that goes on behind the body is counted as one of its own.
        cx.tally.counts.add(Count::Abandoned, u64::from(matches!(self.phase, Phase::Exchange(_))));
        self.phase = Phase::DropBody(Box::new(DropBody::new(head, head_bytes, terms.body_bytes_max, passed)));
    }

    /// Sends a 100 response (RFC 9110 §10.1.1).
    pub(super) fn tell_to_continue(&mut self, cx: &mut Context<'_>) {
        write_continue(self.output.get_or_insert_with(|| cx.buffers.output()));
    }

    fn run_program(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        program: &Program,
        decision: Decision<'_>,
        framing: Framing,
        cx: &mut Context<'_>,
    ) {
        let (id, request) = (self.exchange_id(), Request::new(head, head_bytes, program));
        let length = self.unread_body(head).length();
        let upstream = UpstreamExchange::new(id, (request, head), length, decision.site);
        // The program starts when the request's body is complete, so the client must not wait for the program.
        let leave = upstream.spools() && head.expect == Expect::Continue;
        self.begin_exchange(ExchangeState::Upstream(Box::new(upstream)), head, decision, framing, cx);
        if leave {
            self.tell_to_continue(cx);
        }
    }

    /// The request has to wait: it becomes an exchange, or its exchange gets a new state.
    fn begin_exchange(
        &mut self,
        state: ExchangeState,
        head: &Head<'_>,
        decision: Decision<'_>,
        framing: Framing,
        cx: &mut Context<'_>,
    ) {
        let exchange = Exchange::new(decision, self.exchange_id(), state, head);
        if let Phase::Exchange(current) = &mut self.phase {
            (current.exchange, current.framing) = (exchange, framing);
            return;
        }
        cx.tally.counts.add(Count::Begun, 1);
        self.last_id = exchange.id;
        let (body, client) = (self.unread_body(head), ClientSide::default());
        self.phase = Phase::Exchange(Box::new(Current { exchange, body, framing, client }));
    }

    /// The id of the exchange under way, or of the next one.
    fn exchange_id(&self) -> ExchangeId {
        match &self.phase {
            Phase::Exchange(current) => current.exchange.id,
            _ => self.last_id.next(),
        }
    }

    /// The part of the request's body that has not been read. Nothing is left of a body that was dropped.
    fn unread_body(&self, head: &Head<'_>) -> RequestBody {
        if self.body_waits(head) { RequestBody::of(head) } else { RequestBody::Complete }
    }

    /// Whether the request's body has not been read.
    fn body_waits(&self, head: &Head<'_>) -> bool {
        match &self.phase {
            Phase::BodyDropped(_) => false,
            Phase::Exchange(current) => !current.body.is_complete(),
            _ => head.body != head::Body::None,
        }
    }

    /// Answers bytes that were no request, or that came too slowly, and closes. The log shows the first of them.
    pub(super) fn refuse(&mut self, reject: Reject, bytes: &[u8], cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let framing = &mut Framing::new(Persistence::Closes, Version::Http11);
        let sink = &mut Sink { output, framing, request_id: None };
        let record = decide::refuse(reject, bytes, self.transport.peer, sink, cx);
        output.push_end(record);
        cx.tally.counts.add(Count::Begun, u64::from(!matches!(self.phase, Phase::Exchange(_))));
        self.input = Vec::new();
        self.phase = Phase::Closing { linger: true };
    }

    /// Tells the client of a new connection that it has too many.
    pub(crate) fn refuse_one_too_many(&mut self, cx: &mut Context<'_>) {
        let (status, reason) = (Status::TOO_MANY_REQUESTS, "the client has too many connections");
        self.refuse(Reject { status, reason }, &[], cx);
    }

    /// Ends an exchange that fails. A client that has received nothing gets an error page, and one whose response is complete
    /// gets all of it. Otherwise the connection is closed.
    pub(crate) fn give_up(&mut self, fault: GatewayError, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Some(upstream) = current.exchange.upstream_mut() else { return };
        if upstream.fails(fault, cx) {
            return self.end_upstream(cx);
        }
        let has_begun = upstream.reply.has_begun();
        if has_begun {
            // What the client has not received can be another response.
            let head_at = upstream.head_at;
            let output = self.output.as_mut();
            if !head_at.zip(output).is_some_and(|((begins_at, _), output)| output.take_back(begins_at)) {
                return self.abort(cx);
            }
        }
        let Phase::Exchange(current) = std::mem::replace(&mut self.phase, Phase::ReadRequest) else { return };
        let Current { exchange, mut body, mut framing, .. } = *current;
        let Exchange { site, terms, state, timing, redirects, .. } = exchange;
        let ExchangeState::Upstream(upstream) = state else { return };
        // The answer that follows is counted as a request of its own.
        cx.tally.counts.add(Count::Abandoned, 1);
        body.drop_within(&mut self.input);
        let linger = !body.is_complete();
        if linger {
            self.input = Vec::new();
        }
        let request = upstream.break_off(cx);
        framing.body = BodyFraming::Length;
        let answer = (Answer::Error(fault.status), None);
        let decision = Decision::again(&site, terms, timing, redirects);
        self.respond(&request.parse(), answer, decision, framing, linger, cx);
        // The response that was taken back was counted, too.
        cx.tally.responses -= u64::from(has_begun);
    }

    /// The whole response is in the output, or stored. The exchange is over once that is sent.
    fn end_upstream(&mut self, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Exchange { state: ExchangeState::Upstream(upstream), record, .. } = &mut current.exchange else {
            return;
        };
        // The end of a stored response is recorded behind its last part.
        if !upstream.stores_response() {
            let output = self.output.get_or_insert_with(|| cx.buffers.output());
            output.end(record.take(), cx.now.us, cx.tally);
        }
    }
}
