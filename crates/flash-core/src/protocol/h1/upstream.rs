//! A connection while a program answers: what its driver asks and tells, and how an exchange begins and ends.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use flash_http::status::Status;

use super::{Http1, Phase, after};
use crate::connection::Want;
use crate::context::{Context, UpstreamError};
use crate::deadline::Waiting;
use crate::exchange::{Ended, Exchange, Fault, Need, Release, Reply, Way, Writer};
use crate::header;
use crate::job::{Done, Failure};
use crate::program::{Begin, Begun};
use crate::record::Unfinished;
use crate::steps::send_header::Responder;

/// RFC 3875 §6.2.2 lets a program name another one, and that one the first again.
const REDIRECTS_MAX: u8 = 10;

impl Http1 {
    fn exchange(&self) -> Option<&Exchange> {
        match &self.phase {
            Phase::RunProgram(exchange) => Some(exchange),
            _ => None,
        }
    }

    fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        match &mut self.phase {
            Phase::RunProgram(exchange) => Some(exchange),
            _ => None,
        }
    }

    pub(super) fn want_of_exchange(&mut self, cx: &mut Context<'_>) -> Want {
        let Some(exchange) = self.exchange() else { return Want::Completion };
        let (now_ms, settings) = (cx.now.ms(), &cx.site.settings);
        match exchange.need(self.input.len(), self.output.as_deref()) {
            Need::Begin => Want::Begin,
            Need::ReceiveClient => Want::Receive,
            Need::SendBackend => Want::SendBackend,
            Need::ReceiveBackend => Want::ReceiveBackend,
            Need::ShutBackend => Want::ShutdownBackend,
            Need::Release => Want::Release,
            Need::Job => match self.exchange_mut().and_then(Exchange::job) {
                Some(job) => Want::Job(job),
                None => Want::Completion,
            },
            Need::Completion => {
                self.deadline.wait(Waiting::Completion, now_ms, settings);
                Want::Completion
            }
            Need::SendClient => {
                if let Some(output) = &mut self.output {
                    output.shown(cx.now.us);
                }
                self.deadline.wait(Waiting::Send, now_ms, settings);
                Want::Send
            }
            Need::Wait(awaited, waiting) => {
                self.deadline.wait(waiting, now_ms, settings);
                Want::Exchange(awaited)
            }
        }
    }

    /// What is to be begun. `local` is the server's address that the client connected to. `None` where nothing can be,
    /// which the connection has answered itself.
    pub(crate) fn begin(&mut self, local: Option<SocketAddr>, cx: &mut Context<'_>) -> Option<Begin> {
        // Whatever else there is of this client would be lost, or stand in the middle of the answer.
        let is_alone = self.output.is_none() && self.input.is_empty();
        let transport = self.transport;
        let Phase::RunProgram(exchange) = &mut self.phase else { return None };
        let begin = exchange.begin(&transport, local, is_alone, cx);
        if begin.is_none() {
            self.give_up(Fault::of_program("stands where no route leads"), cx);
        }
        begin
    }

    pub(crate) fn begun(&mut self, begun: Begun, cx: &mut Context<'_>) {
        // Too late: the deadline has answered in its place.
        let Phase::RunProgram(exchange) = &mut self.phase else { return };
        if !exchange.is_asked() {
            return;
        }
        self.deadline.program_lives();
        if matches!((&begun, exchange.request.is_direct), (Begun::HandedOver, true)) {
            cx.tally.responses += 1;
            self.phase = Phase::HandedOver;
            return;
        }
        match exchange.begun(begun) {
            Ok(()) => {
                // RFC 9110 §10.1.1: a client that has begun to send needs no leave.
                let waits = exchange.request.expects && !exchange.body_is_complete();
                exchange.request.expects = false;
                if waits && self.input.is_empty() {
                    self.tell_to_continue(cx);
                }
                self.feed(cx);
            }
            Err(fault) => self.give_up(fault, cx),
        }
    }

    /// The program's stream, from its beginning until [`Connection::release`] or the exchange's end.
    pub(crate) fn backend(&self) -> Option<&OwnedFd> {
        self.exchange()?.backend()
    }

    pub(crate) fn to_backend(&self) -> &[u8] {
        self.exchange().map_or(&[], Exchange::to_backend)
    }

    /// The stream took so many bytes.
    pub(crate) fn backend_sent(&mut self, count: usize, cx: &mut Context<'_>) {
        self.deadline.program_lives();
        if let Some(exchange) = self.exchange_mut() {
            exchange.backend_sent(count);
            self.feed(cx);
        }
    }

    pub(crate) fn backend_received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        self.deadline.program_lives();
        self.hear(cx, |exchange, writer| exchange.backend_received(bytes, writer));
    }

    /// The program says no more, or its stream is broken.
    pub(crate) fn backend_ended(&mut self, cx: &mut Context<'_>) {
        self.hear(cx, Exchange::backend_ended);
    }

    /// The program takes no more, whatever it may say.
    pub(crate) fn backend_refuses(&mut self, cx: &mut Context<'_>) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.backend_refuses();
            self.feed(cx);
        }
    }

    /// The end of what the program is told has been told.
    pub(crate) fn backend_shut(&mut self) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.backend_shut();
        }
    }

    pub(crate) fn backend_blocked(&mut self, way: Way) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.backend_blocked(way);
        }
    }

    /// Something may have happened at the program's stream.
    pub(crate) fn backend_ready(&mut self) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.backend_ready();
        }
    }

    /// Something may have happened at the client's socket.
    pub(crate) fn client_ready(&mut self) {
        if let Some(exchange) = self.exchange_mut() {
            exchange.client_ready();
        }
    }

    /// Whether a call on the client's socket must not wait, because something else may happen first.
    pub(crate) fn is_exchanging(&self) -> bool {
        matches!(self.phase, Phase::RunProgram(_) | Phase::HandedOver)
    }

    pub(crate) fn release(&mut self, cx: &mut Context<'_>) -> Option<Release> {
        let release = self.exchange_mut()?.release();
        if self.output.as_ref().is_none_or(|output| output.is_empty()) {
            self.leave_exchange(cx);
        }
        release
    }

    /// Hands the program what has come of the request's body.
    pub(super) fn feed(&mut self, cx: &mut Context<'_>) {
        let Phase::RunProgram(exchange) = &mut self.phase else { return };
        match exchange.feed(&mut self.input, cx.site) {
            Ok(bytes) => self.deadline.progressed(bytes),
            Err(fault) => return self.give_up(fault, cx),
        }
        if self.input.is_empty() {
            cx.spare.give_back_input(std::mem::take(&mut self.input));
        }
    }

    /// The program has said something: it goes into the output.
    fn hear(
        &mut self,
        cx: &mut Context<'_>,
        what: impl FnOnce(&mut Exchange, &mut Writer<'_>) -> Result<Ended, Fault>,
    ) {
        let Phase::RunProgram(exchange) = &mut self.phase else { return };
        let mut terms = exchange.request.terms;
        if !exchange.reply.has_begun() && !exchange.body_is_complete() {
            // What the program leaves of its request's body would have to be read to its end.
            terms.connection = header::Connection::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let mut writer = Writer { site: cx.site, now: cx.now, output, terms: &mut terms, head: None };
        let heard = what(exchange, &mut writer);
        if let Some(written) = writer.head {
            exchange.request.terms = terms;
            cx.tally.responses += 1;
            if cx.site.settings.log
                && let Some(head) = exchange.request.parse(cx.site)
            {
                let since = exchange.request.since;
                exchange.record = Some(Unfinished::new(&head, self.transport.peer, written, since, cx.now));
            }
        }
        if exchange.reply.is_complete()
            && let Some(record) = exchange.record.take()
        {
            output.push_end(record);
            // Where all has been sent before, this is its end.
            output.sent(0, cx.now.us, &mut cx.tally.records);
        }
        if let Some(routes) = &cx.site.routes {
            exchange.make_room(output, &routes.answers);
        }
        match heard {
            Ok(Ended::Well | Ended::Again) => {}
            Err(fault) => self.give_up(fault, cx),
        }
    }

    /// All has been sent: if the program has done its part as well, the exchange is over.
    pub(super) fn leave_exchange(&mut self, cx: &mut Context<'_>) {
        let Phase::RunProgram(exchange) = &mut self.phase else { return };
        exchange.drained();
        if !exchange.is_over() {
            if !exchange.reply.has_begun()
                && let Some(output) = self.output.take()
            {
                cx.spare.give_back_output(output);
            }
            return;
        }
        if let Some(output) = self.output.take() {
            cx.spare.give_back_output(output);
        }
        let connection = exchange.request.terms.connection;
        if let Reply::Redirect { target, .. } = &exchange.reply {
            let redirects = exchange.request.redirects + 1;
            let head = exchange.request.redirected(target, cx.site).filter(|_| exchange.body_is_complete());
            match head {
                Some(head) if redirects <= REDIRECTS_MAX => {
                    self.input.splice(..0, head);
                    self.phase = Phase::Redirected { redirects };
                }
                _ => return self.give_up(Fault::of_program("redirects to another path without end"), cx),
            }
        } else if exchange.body_is_complete() {
            self.phase = after(connection);
        } else {
            self.phase = Phase::Closing { linger: true };
        }
        self.resume(cx);
    }

    /// A part of the body was written, or is here again.
    pub(super) fn body_moved(&mut self, done: Done, cx: &mut Context<'_>) {
        let Some(exchange) = self.exchange_mut() else { return };
        match exchange.job_done(done) {
            Ok(()) => self.feed(cx),
            Err(fault) => self.give_up(fault, cx),
        }
    }

    /// A job about the body has taken too long.
    pub(super) fn body_is_late(&mut self, cx: &mut Context<'_>) {
        if let Some(exchange) = self.exchange_mut() {
            // It may be done yet, and must not be taken for what the next request asks for.
            exchange.request.terms.connection = header::Connection::Closes;
        }
        self.give_up(Fault::of_spool(Failure::Late), cx);
    }

    /// The program has taken too long, or the client has with its request's body.
    pub(super) fn exchange_is_late(&mut self, cx: &mut Context<'_>) {
        let status = match self.deadline.is_for(Waiting::Body) {
            true => Fault { status: Status::REQUEST_TIMEOUT, reason: None },
            false => Fault { status: Status::GATEWAY_TIMEOUT, reason: Some("has been silent for too long") },
        };
        if let Some(exchange) = self.exchange_mut()
            && exchange.is_asked()
        {
            // It may begin yet, and must not be taken for what the next request asks for.
            exchange.request.terms.connection = header::Connection::Closes;
        }
        self.give_up(status, cx);
    }

    /// Breaks off. A client that has been told nothing gets an answer, and another one sees the connection end.
    fn give_up(&mut self, fault: Fault, cx: &mut Context<'_>) {
        let Phase::RunProgram(exchange) = &mut self.phase else { return };
        if let Some(reason) = fault.reason {
            let request = exchange.request.name().clone();
            cx.tally.upstream_errors.push(UpstreamError { request, reason });
        }
        if exchange.reply.has_begun() {
            return self.abort(cx);
        }
        let linger = !exchange.body_is_complete();
        let Phase::RunProgram(exchange) = std::mem::replace(&mut self.phase, Phase::ReadRequest) else {
            return;
        };
        let request = exchange.break_off().0;
        let Some(head) = request.parse(cx.site) else { return };
        let connection = match linger {
            true => header::Connection::Closes,
            false => request.terms.connection,
        };
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let head_only = request.terms.head_only;
        let response = Responder { site: cx.site, now: cx.now, output, connection, head_only, age_s: None }
            .error(fault.status);
        if linger {
            self.input = Vec::new();
        }
        self.answered(&head, response, linger, request.since, cx);
    }
}
