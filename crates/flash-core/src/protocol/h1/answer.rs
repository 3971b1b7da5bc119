//! Answering a head: a response begins, or the request becomes an exchange that waits for a job or an upstream. A malformed
//! request is refused.

use std::sync::Arc;

use flash_http::head::{self, Expect, Head, Reject, Version};
use flash_http::method::Method;
use flash_http::status::Status;

use super::client::Client;
use super::drop_body::DropBody;
use super::framing::{BodyFraming, Framing, Sink};
use super::persistence::Persistence;
use super::request_body::RequestBody;
use super::state::{Current, Http1, Phase, Redirected};
use crate::context::{Context, UpstreamError};
use crate::exchange::admission::Passed;
use crate::exchange::answer::{Next, Program};
use crate::exchange::decide::{self, Decision, Terms, Waited};
use crate::exchange::passed_id::PassedId;
use crate::exchange::recording;
use crate::exchange::respond::{Responder, Response};
use crate::exchange::upstream::{GatewayError, Request, UpstreamExchange};
use crate::exchange::{Exchange, ExchangeState};
use crate::exchange_id::ExchangeId;
use crate::held_site::HeldSite;
use crate::record::{RecordBuilder, Timing};
use crate::site::Site;

pub(super) enum Answered {
    /// The head has been consumed.
    Yes,
    /// The head stays in the input until the look-up is done.
    NotYet,
}

/// What the exchange of a request has from its beginning, if the request has to wait.
pub(super) struct Beginning<'s> {
    /// The site of the request's host, and the site or place whose rules the response is written by.
    host: &'s Arc<Site>,
    site: &'s Arc<Site>,
    terms: Terms,
    passed: Passed,
    framing: Framing,
    timing: Timing,
}

impl Http1 {
    pub(super) fn answer(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        let mut framing =
            Framing::new(Persistence::after(head, cx.drain.closes(&self.transport)), head.framing.version);
        let (server, body_waits) = (cx.server, self.body_waits(head));
        let (held_host, timing, mut passed) = self.waited(cx);
        let waited = match &self.phase {
            Phase::Exchange(current) => current.exchange.waited(),
            _ => Waited::default(),
        };
        let is_late = waited.is_late();
        let of = (&self.transport, server);
        let Decision { next, host, site, terms, is_refused } =
            decide::decide(head, (held_host.as_ref(), waited), &mut passed, of, body_waits, cx);
        let mut beginning = Beginning { host, site, terms, passed, framing, timing };
        let (answer, age_s) = match next {
            Next::Respond { answer, age_s } => (answer, age_s),
            Next::Wait => {
                if let Phase::Exchange(current) = &mut self.phase {
                    current.exchange.passed = beginning.passed;
                }
                return Answered::NotYet;
            }
            Next::DropBody => return self.drop_body(head, head_bytes, beginning, cx),
            Next::Login(login) => {
                self.begin_exchange(ExchangeState::Login(login), head, beginning, cx);
                return Answered::NotYet;
            }
            Next::Lookup(lookup) => {
                self.begin_exchange(ExchangeState::Lookup(lookup), head, beginning, cx);
                return Answered::NotYet;
            }
            Next::Upstream(program) => {
                return self.run_program(head, head_bytes, &program, beginning, cx);
            }
        };
        // If the body is not read, the beginning of the next request is unknown.
        let linger = match is_refused {
            true => head.body != head::Body::None || head.expect != Expect::None,
            false => body_waits,
        };
        if linger || is_late {
            framing.persistence = Persistence::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let head_only = head.method == Method::Head;
        let id = PassedId::of(site, &self.transport, head, timing.id, server);
        let sink =
            &mut Sink { output, framing: &mut framing, request_id: id.as_ref().map(PassedId::as_bytes) };
        let (is_private, reads_accept) = (terms.are_private_in(site), terms.reads_accept);
        let responder = Responder::new(site, &server.refusals, cx.now, sink);
        let mut responder = Responder { head_only, is_private, reads_accept, age_s, ..responder };
        let response = responder.answer(head, answer);
        beginning.framing = framing;
        self.answered(head, response, linger, beginning, cx);
        Answered::Yes
    }

    /// What a request that has waited has from its beginning: the site of its host, its time, and what it has passed. A new request
    /// begins.
    fn waited(&mut self, cx: &mut Context<'_>) -> (Option<Arc<Site>>, Timing, Passed) {
        match &mut self.phase {
            Phase::Exchange(current) => {
                let Exchange { site, timing, passed, .. } = &mut current.exchange;
                (Some(Arc::clone(site.host())), *timing, std::mem::take(passed))
            }
            Phase::Redirected(redirected) => {
                let Redirected { site, timing, passed, .. } = &mut **redirected;
                (Some(Arc::clone(site.host())), *timing, std::mem::take(passed))
            }
            Phase::BodyDropped(passed) => (None, Timing::begin(cx.ids, cx.now), std::mem::take(passed)),
            _ => (None, Timing::begin(cx.ids, cx.now), Passed::default()),
        }
    }

    /// The request's body is of no use, but the next request stands behind it.
    fn drop_body(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        Beginning { terms, passed, .. }: Beginning<'_>,
        cx: &mut Context<'_>,
    ) -> Answered {
        if head.expect == Expect::Continue {
            self.tell_to_continue(cx);
        }
        // The request that goes on behind the body is counted as one of its own.
        cx.tally.abandoned += u64::from(matches!(self.phase, Phase::Exchange(_)));
        self.phase = Phase::DropBody(Box::new(DropBody::new(head, head_bytes, terms.body_bytes_max, passed)));
        Answered::Yes
    }

    /// Sends a 100 response (RFC 9110 §10.1.1).
    pub(super) fn tell_to_continue(&mut self, cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        output.write(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        output.push_interim_end();
    }

    fn run_program(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        program: &Program,
        beginning: Beginning<'_>,
        cx: &mut Context<'_>,
    ) -> Answered {
        let request = Request::new(head, head_bytes, program);
        let id = self.exchange_id();
        let upstream = UpstreamExchange::new(
            id,
            request,
            self.unread_body(head).length(),
            beginning.site.routes.clone(),
        );
        // The program starts when the request's body is complete, so the client must not wait for the program.
        let leave = upstream.spools() && head.expect == Expect::Continue;
        self.begin_exchange(ExchangeState::Upstream(Box::new(upstream)), head, beginning, cx);
        if leave {
            self.tell_to_continue(cx);
        }
        Answered::Yes
    }

    /// The request has to wait: it becomes an exchange, or its exchange gets a new state.
    fn begin_exchange(
        &mut self,
        state: ExchangeState,
        head: &Head<'_>,
        Beginning { host, site, terms, passed, framing, timing }: Beginning<'_>,
        cx: &mut Context<'_>,
    ) {
        match &mut self.phase {
            Phase::Exchange(current) => {
                let exchange = &mut current.exchange;
                (exchange.state, exchange.timing) = (state, timing);
                (exchange.terms, exchange.passed) = (terms, passed);
                current.framing = framing;
            }
            _ => {
                cx.tally.begun += 1;
                let (id, redirects) = (self.exchange_id(), self.redirects());
                self.last_id = id;
                let exchange = Exchange {
                    id,
                    site: HeldSite::new(host, site),
                    terms,
                    passed,
                    state,
                    timing,
                    head_only: head.method == Method::Head,
                    redirects,
                    record: None,
                };
                let (body, client) = (self.unread_body(head), Client::default());
                self.phase = Phase::Exchange(Box::new(Current { exchange, body, framing, client }));
            }
        }
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

    fn redirects(&self) -> u8 {
        match &self.phase {
            Phase::Redirected(redirected) => redirected.redirects,
            Phase::Exchange(current) => current.exchange.redirects,
            _ => 0,
        }
    }

    /// The head is in the output. Records it, and continues with the body or the next request.
    pub(super) fn answered(
        &mut self,
        head: &Head<'_>,
        response: Response,
        linger: bool,
        beginning: Beginning<'_>,
        cx: &mut Context<'_>,
    ) {
        let Response { status, head_bytes, rest } = response;
        cx.tally.responses += 1;
        let of = (&**beginning.site, &self.transport);
        let record = recording::record(head, of, (status, head_bytes), beginning.timing, cx)
            .by(|| beginning.terms.user_of(head));
        if let Some(body) = rest {
            self.begin_exchange(ExchangeState::Body(body), head, beginning, cx);
            if let Phase::Exchange(current) = &mut self.phase {
                current.exchange.record = Some(record);
            }
            return;
        }
        cx.tally.begun += u64::from(!matches!(self.phase, Phase::Exchange(_)));
        if let Some(output) = &mut self.output {
            output.push_end(record);
        }
        self.phase =
            if linger { Phase::Closing { linger } } else { Phase::after(beginning.framing.persistence) };
    }

    /// Answers bytes that were no request, or that came too slowly, and closes. The log shows the first of them.
    pub(super) fn refuse(&mut self, reject: Reject, bytes: &[u8], cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let framing = &mut Framing::new(Persistence::Closes, Version::Http11);
        let sink = &mut Sink { output, framing, request_id: None };
        let (site, refusals) = (cx.server.hosts.unnamed(), &cx.server.refusals);
        let mut responder = Responder::new(site, refusals, cx.now, sink);
        let response = responder.error(reject.status);
        cx.tally.responses += 1;
        cx.tally.begun += u64::from(!matches!(self.phase, Phase::Exchange(_)));
        let of = (cx.server.settings.log.then_some(self.transport.peer), site.counted_as);
        let record = RecordBuilder::of_refusal(of, reject, bytes, response.head_bytes, cx.now);
        output.push_end(record);
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
        let Some(upstream) = self.upstream() else { return };
        if let Some(reason) = fault.reason {
            let request = upstream.request.name().clone();
            cx.tally.upstream_errors.push(UpstreamError { request, reason });
        }
        if upstream.is_safe() {
            return self.abandon_upstream(cx);
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
        let Exchange { site, terms, passed, state, timing, head_only, .. } = exchange;
        let ExchangeState::Upstream(upstream) = state else { return };
        // The answer that follows is counted as a request of its own.
        cx.tally.abandoned += 1;
        body.drop_within(&mut self.input);
        let linger = !body.is_complete();
        let (request, release) = upstream.break_off();
        cx.tally.released.extend(release);
        let head = request.parse();
        framing.body = BodyFraming::Length;
        if linger {
            framing.persistence = Persistence::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let sink = &mut Sink { output, framing: &mut framing, request_id: request.id.as_deref() };
        let refusals = &cx.server.refusals;
        let mut responder = Responder { head_only, ..Responder::new(&site, refusals, cx.now, sink) };
        let response = responder.error(fault.status);
        if linger {
            self.input = Vec::new();
        }
        let beginning = Beginning { host: site.host(), site: &site, terms, passed, framing, timing };
        self.answered(&head, response, linger, beginning, cx);
        // The response that was taken back was counted, too.
        cx.tally.responses -= u64::from(has_begun);
    }

    /// The whole response is in the output. The exchange is over once that is sent.
    fn abandon_upstream(&mut self, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Exchange { state: ExchangeState::Upstream(upstream), record, .. } = &mut current.exchange else {
            return;
        };
        upstream.abandon();
        cx.tally.released.extend(upstream.released());
        if upstream.stores_response() {
            // The end of the response is recorded behind its last part.
            return;
        }
        if let Some(record) = record.take() {
            let output = self.output.get_or_insert_with(|| cx.buffers.output());
            output.push_end(record);
            // If all bytes have been sent already, this records the end.
            output.sent(0, cx.now.us, cx.tally);
        }
    }
}
