//! A connection while an upstream answers: the driver's calls, and how an exchange begins and ends.

use std::net::SocketAddr;
use std::sync::Arc;

use super::framing::Sink;
use super::state::{Current, Http1, Phase, Redirected};
use crate::context::Context;
use crate::deadline::Waiting;
use crate::exchange::upstream::{
    Ended, GatewayError, Need, OUTGOING_BYTES_MAX, REDIRECTS_MAX, ResponseState, UpstreamExchange, Writer,
};
use crate::exchange::{Exchange, ExchangeState, recording};
use crate::exchange_id::ExchangeId;
use crate::transport::ClientCertificate;
use crate::upstream::{Open, Opened};
use crate::want::{Interest, Want};

impl Http1 {
    pub(super) fn want_of_upstream(&mut self, cx: &mut Context<'_>) -> Want {
        let Phase::Exchange(current) = &mut self.phase else { return Want::WaitJob };
        let Current { exchange, body, client, .. } = &mut **current;
        let id = exchange.id;
        let Some(upstream) = exchange.upstream_mut() else { return Want::WaitJob };
        let (now_ms, settings) = (cx.now.ms(), &cx.server.settings);
        let output = self.output.as_mut().filter(|output| !output.is_empty());
        let waiting_bytes = output.as_ref().map_or(0, |output| output.waiting_bytes());
        let sends = output.is_some();
        let receives = self.input.len() < OUTGOING_BYTES_MAX && !client.has_ended;
        let in_turn = settings.jobs_in_turn;
        let mut need = upstream.need_before_reading(in_turn);
        if let Some(output) = output
            && !client.out_blocked
        {
            output.shown(cx.now.us);
            self.deadline.wait(Waiting::Send, now_ms, settings);
            return Want::Send;
        }
        if need.is_none() && receives && !client.in_blocked {
            return Want::Receive;
        }
        need = need.or_else(|| upstream.need_after_reading(waiting_bytes));
        match need {
            Some(Need::Open) => Want::OpenUpstream(id),
            Some(Need::Send) => Want::SendUpstream(id),
            Some(Need::Receive) => Want::ReceiveUpstream(id),
            Some(Need::Shutdown) => Want::ShutdownUpstream(id),
            Some(Need::Job) => upstream.job().map_or(Want::WaitJob, |job| Want::Job(id, job)),
            Some(Need::WaitJob) => {
                self.deadline.wait(Waiting::Completion, now_ms, settings);
                upstream.wait(waiting_bytes, client.has_ended, cx);
                Want::WaitJob
            }
            None => {
                let awaits_body = upstream.spools() && receives && !body.is_complete();
                let waiting = match (sends, awaits_body) {
                    _ if upstream.awaits_job() => Waiting::Completion,
                    (true, _) => Waiting::Send,
                    (false, true) => Waiting::Body,
                    (false, false) => Waiting::Nothing,
                };
                self.deadline.wait(waiting, now_ms, settings);
                upstream.wait(waiting_bytes, client.has_ended, cx);
                let (upstream_in, upstream_out) = upstream.awaited(waiting_bytes);
                Want::WaitIo(Interest { client_in: receives, client_out: sends, upstream_in, upstream_out })
            }
        }
    }

    /// What to open. `local` is the server's address that the client connected to. Returns `None` if no route leads there;
    /// the connection has then answered itself.
    pub(crate) fn begin(
        &mut self,
        id: ExchangeId,
        local: Option<SocketAddr>,
        certificate: Option<&ClientCertificate>,
        cx: &mut Context<'_>,
    ) -> Option<Open> {
        // Other input or output of this client would be lost, or land in the middle of the response.
        let is_alone = self.output.is_none() && self.input.is_empty();
        let transport = self.transport;
        let exchange = self.exchange_mut(id)?;
        let site = Arc::clone(&exchange.site);
        let of = (&*site, exchange.terms, exchange.timing);
        let begin = exchange.upstream_mut()?.begin(of, (&transport, certificate), local, is_alone, cx);
        if begin.is_none() {
            self.give_up(GatewayError::of_program("stands where no route leads"), cx);
        }
        begin
    }

    /// Returns whether the exchange takes the result of [`Http1::begin`]. If it is too late, the stream is of no use.
    pub(crate) fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        if !self.upstream_of(id).is_some_and(UpstreamExchange::is_opening) {
            return false;
        }
        let Some(upstream) = self.upstream_mut(id) else { return false };
        upstream.program_lives(cx);
        if matches!((&begun, upstream.request.is_direct), (Opened::Detached, true)) {
            cx.tally.responses += 1;
            self.phase = Phase::Detached;
            return true;
        }
        match upstream.begun(begun) {
            Ok(()) => self.feed(cx),
            Err(fault) => self.give_up(fault, cx),
        }
        true
    }

    /// Which directions of its stream the exchange waits for: to read, and to write.
    pub(crate) fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        let waiting_bytes = self.output.as_ref().map_or(0, |output| output.waiting_bytes());
        self.upstream_of(id).map_or((false, false), |upstream| upstream.awaited(waiting_bytes))
    }

    /// How many bytes of the upstream's stream are read at a time.
    pub(crate) fn piece_bytes(&self, id: ExchangeId) -> Option<usize> {
        let waiting_bytes = self.output.as_ref().map_or(0, |output| output.waiting_bytes());
        self.upstream_of(id).map(|upstream| upstream.piece_bytes(waiting_bytes))
    }

    pub(crate) fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        self.upstream_of(id).map_or(&[], UpstreamExchange::to_upstream)
    }

    pub(crate) fn upstream_sent(&mut self, id: ExchangeId, count: usize, cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_sent(count);
            upstream.program_lives(cx);
            self.feed(cx);
        }
    }

    pub(crate) fn upstream_received(&mut self, id: ExchangeId, bytes: &[u8], cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.program_lives(cx);
        }
        self.hear(id, cx, |upstream, writer| upstream.upstream_received(bytes, writer));
    }

    /// The upstream has nothing more to read for now.
    pub(crate) fn upstream_pauses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        if self.upstream_of(id).is_some_and(UpstreamExchange::holds_back) {
            self.hear(id, cx, |upstream, writer| upstream.upstream_pauses(writer));
        }
    }

    pub(crate) fn upstream_ended(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        self.hear(id, cx, |upstream, writer| upstream.upstream_ended(writer));
    }

    pub(crate) fn upstream_refuses(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_refuses();
            self.feed(cx);
        }
    }

    pub(crate) fn is_exchanging(&self) -> bool {
        self.is_exchanging_with_upstream() || matches!(self.phase, Phase::Detached)
    }

    /// The upstream has written something, which goes into the output.
    fn hear(
        &mut self,
        id: ExchangeId,
        cx: &mut Context<'_>,
        what: impl FnOnce(&mut UpstreamExchange, &mut Writer<'_, Sink<'_>>) -> Result<Ended, GatewayError>,
    ) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, .. } = &mut **current;
        let Exchange {
            state: ExchangeState::Upstream(upstream),
            record,
            timing,
            head_only,
            id: exchange_id,
            site,
            terms,
            ..
        } = exchange
        else {
            return;
        };
        if *exchange_id != id {
            return;
        }
        let mut new_framing = *framing;
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let id = upstream.request.id.clone();
        let begins_at = output.mark();
        let sink = &mut Sink { output, framing: &mut new_framing, request_id: id.as_deref() };
        let mut writer = Writer {
            site,
            refusals: &cx.server.refusals,
            now: cx.now,
            limits: &cx.server.settings.program_head,
            sink,
            head_only: *head_only,
            accepts: upstream.request.accepts,
            head: None,
        };
        // What follows a stored part is stored behind it.
        let kept_from = upstream.stores_response().then(|| writer.sink.output.written_bytes());
        let heard = what(upstream, &mut writer);
        if let Some(written) = writer.head {
            *framing = new_framing;
            upstream.head_at = Some((begins_at, output.mark()));
            cx.tally.responses += 1;
            let head = upstream.request.parse();
            let begun = recording::record(&head, (site, &self.transport), written, *timing, cx);
            *record = Some(begun.by(|| terms.user_of(&head)));
        }
        if let Some(from) = kept_from {
            upstream.store(&output.take_behind(from));
        }
        if upstream.is_complete()
            && let Some(record) = record.take()
        {
            output.push_end(record);
            // If all bytes have been sent already, this records the end.
            output.sent(0, cx.now.us, cx.tally);
        }
        upstream.make_room(output.waiting_bytes());
        cx.tally.released.extend(upstream.released());
        let is_over = upstream.is_over() && output.is_empty();
        match heard {
            Ok(Ended::Well | Ended::Retry) if is_over => self.leave_upstream(cx),
            Ok(Ended::Well | Ended::Retry) => {}
            Err(fault) => self.give_up(fault, cx),
        }
    }

    /// Continues with a stored response, if the output is empty. `part` was read back from the file.
    pub(super) fn send_stored(&mut self, part: &[u8], cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Exchange { state: ExchangeState::Upstream(upstream), record, .. } = &mut current.exchange else {
            return;
        };
        if part.is_empty() && !upstream.stores_response() {
            return;
        }
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        output.write(|out| out.extend_from_slice(part));
        if output.is_empty() {
            upstream.next_part(|part| output.write(|out| out.extend_from_slice(part)));
        }
        if upstream.is_complete()
            && let Some(record) = record.take()
        {
            output.push_end(record);
            // If all bytes have been sent already, this records the end.
            output.sent(0, cx.now.us, cx.tally);
        }
        upstream.make_room(output.waiting_bytes());
    }

    /// The output is empty. If the upstream has done its part, the exchange is over.
    pub(super) fn leave_upstream(&mut self, cx: &mut Context<'_>) {
        if self.upstream().is_some_and(UpstreamExchange::stores_response) {
            return self.send_stored(&[], cx);
        }
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, .. } = &mut **current;
        let redirects = exchange.redirects + 1;
        let Some(upstream) = exchange.upstream_mut() else { return };
        upstream.make_room(0);
        if !upstream.is_over() {
            if !upstream.reply.has_begun()
                && let Some(output) = self.output.take()
            {
                cx.buffers.give_back_output(output);
            }
            return;
        }
        if let Some(output) = self.output.take() {
            cx.buffers.give_back_output(output);
        }
        if let ResponseState::Redirect { target, .. } = &upstream.reply {
            if redirects > REDIRECTS_MAX {
                return self.give_up(GatewayError::of_program("redirects to another path without end"), cx);
            }
            self.input.splice(..0, upstream.request.redirected(target));
            // The request for the other path is counted as one of its own.
            cx.tally.abandoned += 1;
            if let Phase::Exchange(current) = std::mem::replace(&mut self.phase, Phase::Closed) {
                let Exchange { site, passed, timing, .. } = current.exchange;
                let passed = passed.redirected();
                self.phase = Phase::Redirected(Box::new(Redirected { site, passed, timing, redirects }));
            }
        } else {
            self.phase = Phase::after(framing.persistence);
        }
        self.resume(cx);
    }
}
