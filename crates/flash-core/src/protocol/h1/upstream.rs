//! A connection while an upstream answers: the driver's calls, and how an exchange begins and ends.

use super::framing::Sink;
use super::persistence::Persistence;
use super::request_body::RequestBody;
use super::state::{Current, Http1, Phase};
use crate::clients::deadline::Waiting;
use crate::connection::context::Context;
use crate::connection::want::{Interest, Want};
use crate::exchange::decide;
use crate::exchange::id::ExchangeId;
use crate::exchange::upstream::{
    Ended, GatewayError, Need, OUTGOING_BYTES_MAX, REDIRECTS_MAX, UpstreamEvent, UpstreamExchange, Writer,
};
use crate::exchange::{Exchange, ExchangeState};
use crate::record::counters::Count;

impl Http1 {
    pub(super) fn want_of_upstream(&mut self, cx: &mut Context<'_>) -> Want {
        let is_paced = self.is_paced(cx.now.us);
        let Phase::Exchange(current) = &mut self.phase else { return Want::WaitJob };
        let Current { exchange, body, client, .. } = &mut **current;
        let id = exchange.id;
        let Some(upstream) = exchange.upstream_mut() else { return Want::WaitJob };
        let (now_ms, settings) = (cx.now.ms(), &cx.server.settings);
        let output = self.output.as_mut().filter(|output| !output.is_empty());
        let waiting_bytes = output.as_ref().map_or(0, |output| output.waiting_bytes());
        let sends = output.is_some() && !is_paced;
        let receives = self.input.len() < OUTGOING_BYTES_MAX && !client.has_ended;
        let mut need = upstream.need_before_reading(cx.goes_with_jobs());
        if let Some(output) = output
            && sends
            && !client.out_blocked
        {
            output.shown(cx.now.us);
            output.allow(self.pace.as_ref().map(|pace| pace.allowed()));
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
                upstream.wait(waiting_bytes, is_paced, client.has_ended, cx);
                Want::WaitJob
            }
            None => {
                let awaits_body = upstream.awaits_body() && receives && !body.is_complete();
                let waiting = match (sends, awaits_body) {
                    _ if upstream.awaits_job() => Waiting::Completion,
                    (true, _) => Waiting::Send,
                    (false, true) => Waiting::Body,
                    (false, false) => Waiting::Nothing,
                };
                self.deadline.wait(waiting, now_ms, settings);
                upstream.wait(waiting_bytes, is_paced, client.has_ended, cx);
                let (upstream_in, upstream_out) = upstream.awaited(waiting_bytes);
                Want::WaitIo(Interest { client_in: receives, client_out: sends, upstream_in, upstream_out })
            }
        }
    }

    pub(crate) fn is_exchanging(&self) -> bool {
        self.is_exchanging_with_upstream() || matches!(self.phase, Phase::Detached)
    }

    /// The upstream has written something, which goes into the output.
    pub(crate) fn upstream_event(&mut self, id: ExchangeId, event: UpstreamEvent<'_>, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, body, .. } = &mut **current;
        let Exchange {
            state: ExchangeState::Upstream(upstream),
            record,
            timing,
            head_only,
            id: exchange_id,
            site,
            terms,
            passed,
            ..
        } = exchange
        else {
            return;
        };
        if *exchange_id != id {
            return;
        }
        let mut new_framing = *framing;
        if body.is_awaited() {
            // Where the next request begins is not known, or not soon.
            new_framing.persistence = Persistence::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let id = upstream.request.id.clone();
        let begins_at = output.mark();
        let sink = &mut Sink { output, framing: &mut new_framing, request_id: id.as_deref() };
        let mut writer = Writer::new(site, &upstream.request, *head_only, sink, cx);
        // What follows a stored part is stored behind it.
        let kept_from = upstream.stores_response().then(|| writer.sink.output.written_bytes());
        let ended = upstream.upstream_event(event, &mut writer);
        let (written, rate, expects) = (writer.head, writer.rate, writer.expects);
        let has_proceeded = std::mem::replace(&mut upstream.request.expects, expects) && !expects;
        if let Some(written) = written {
            *framing = new_framing;
            upstream.head_at = (!has_proceeded).then(|| (begins_at, output.mark()));
            let said = rate.or(passed.rate());
            self.pace = decide::pace(site, said, &upstream.request.parse(), &self.transport, cx);
            cx.tally.responses += 1;
            let of = (&***site, *terms, *timing);
            *record = Some(upstream.request.record(of, &self.transport, written, cx));
        }
        if let Some(record) = record {
            record.of_program(upstream.clock.times());
        }
        let begins_tunnel = upstream.is_tunnel() && !matches!(body, RequestBody::Tunnel);
        if begins_tunnel {
            *body = RequestBody::Tunnel;
        }
        if let Some(from) = kept_from {
            upstream.store(&output.take_behind(from));
        }
        if upstream.is_complete() {
            output.end(record.take(), cx.now.us, cx.tally);
        }
        upstream.make_room(output.waiting_bytes());
        cx.tally.released.extend(upstream.released());
        let is_over = upstream.is_over() && output.is_empty();
        match ended {
            Ok(Ended::Well | Ended::Retry) if is_over => self.leave_upstream(cx),
            // The client may have sent something already.
            Ok(_) if begins_tunnel => self.feed(cx),
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
        if upstream.is_complete() {
            output.end(record.take(), cx.now.us, cx.tally);
        }
        upstream.make_room(output.waiting_bytes());
    }

    /// The output is empty. If the upstream has done its part, the exchange is over.
    pub(super) fn leave_upstream(&mut self, cx: &mut Context<'_>) {
        if self.upstream().is_some_and(UpstreamExchange::stores_response) {
            return self.send_stored(&[], cx);
        }
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, body, .. } = &mut **current;
        let (is_read, redirects, terms) = (!body.is_awaited(), exchange.redirects + 1, exchange.terms);
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
        // The request for the other path stands behind the body.
        if upstream.is_redirected() && !is_read {
            return;
        }
        if let Some(output) = self.output.take() {
            cx.buffers.give_back_output(output);
        }
        self.pace = None;
        if let Some((head, hand_off)) = upstream.redirected(terms) {
            if redirects > REDIRECTS_MAX {
                return self.give_up(GatewayError::of_program("redirects to another path without end"), cx);
            }
            self.input.splice(..0, head);
            // The request for the other path is counted as one of its own.
            cx.tally.counts.add(Count::Abandoned, 1);
            if let Phase::Exchange(current) = std::mem::replace(&mut self.phase, Phase::Closed) {
                let passed = current.exchange.passed.redirected(hand_off);
                self.phase = Phase::Redirected(Box::new(Exchange { passed, redirects, ..current.exchange }));
            }
        } else if is_read {
            self.phase = Phase::after(framing.persistence);
        } else {
            self.phase = Phase::Closing { linger: true };
        }
        self.resume(cx);
    }
}
