//! Streams that upstreams answer: the driver's calls, and how such an exchange begins and ends.

use super::sink::Sink;
use super::state::Http2;
use crate::connection::context::Context;
use crate::connection::want::Want;
use crate::exchange::decide;
use crate::exchange::id::ExchangeId;
use crate::exchange::sink::BodySink;
use crate::exchange::upstream::{
    Ended, GatewayError, Need, REDIRECTS_MAX, UpstreamEvent, UpstreamExchange, Writer,
};
use crate::exchange::{Exchange, ExchangeState};

impl Http2 {
    pub(super) fn upstream_want_before_reading(&mut self) -> Option<Want> {
        self.upstream_want(|upstream, _| upstream.need_before_reading(false))
    }

    pub(super) fn upstream_want_after_reading(&mut self) -> Option<Want> {
        self.upstream_want(UpstreamExchange::need_after_reading)
    }

    /// What the next upstream needs that needs something. Each has its turn.
    fn upstream_want(&mut self, need: impl Fn(&UpstreamExchange, usize) -> Option<Need>) -> Option<Want> {
        let last = self.last_upstream;
        let wants = self.session.streams().iter().filter_map(|stream| {
            let upstream = stream.user.exchange.as_ref()?.upstream()?;
            let id = ExchangeId::of_stream(stream.id);
            let want = match need(upstream, stream.user.pieces.bytes() as usize)? {
                Need::Open => Want::OpenUpstream(id),
                Need::Send => Want::SendUpstream(id),
                Need::Receive => Want::ReceiveUpstream(id),
                Need::Shutdown => Want::ShutdownUpstream(id),
                // Jobs are handed out for all exchanges together.
                Need::Job | Need::WaitJob => return None,
            };
            Some((stream.id, want))
        });
        let (id, want) = wants.min_by_key(|(id, _)| (*id <= last, *id))?;
        self.last_upstream = id;
        Some(want)
    }

    /// Which directions of any upstream's stream would block.
    pub(super) fn upstream_interest(&self) -> (bool, bool) {
        let interests = self.session.streams().iter().filter_map(|stream| {
            Some(stream.user.exchange.as_ref()?.upstream()?.awaited(stream.user.pieces.bytes() as usize))
        });
        interests.fold((false, false), |all, one| (all.0 | one.0, all.1 | one.1))
    }

    /// The upstream has written something, which goes into the stream's pieces.
    pub(crate) fn upstream_event(&mut self, id: ExchangeId, event: UpstreamEvent<'_>, cx: &mut Context<'_>) {
        self.empties_table |= self.session.empties_table();
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return };
        let state = &mut stream.user;
        let Some(Exchange {
            state: ExchangeState::Upstream(upstream),
            timing,
            head_only,
            site,
            terms,
            passed,
            ..
        }) = &mut state.exchange
        else {
            return;
        };
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let waiting_bytes = state.pieces.bytes();
        let request_id = upstream.request.id.clone();
        let (begins_at, empties_table) = (output.mark(), self.empties_table);
        let mut sink = Sink::new(output, &mut state.pieces, id.stream(), &mut self.empties_table, 0)
            .tells(request_id.as_deref());
        let mut writer = Writer::new(site, &upstream.request, *head_only, &mut sink, cx);
        // What follows a stored part is stored behind it.
        let kept_from = upstream.stores_response().then_some(waiting_bytes);
        let ended = upstream.upstream_event(event, &mut writer);
        let (written, rate, expects) = (writer.head, writer.rate, writer.expects);
        let has_proceeded = std::mem::replace(&mut upstream.request.expects, expects) && !expects;
        let is_written = upstream.reply.is_written();
        if is_written {
            // The rest of the request is of no use. Some clients end it then, before its length.
            state.body.left = None;
        }
        if let Some(written) = written {
            cx.tally.responses += 1;
            // A response that empties the client's table stays, because later ones build on that.
            upstream.head_at = (!empties_table && !has_proceeded).then(|| (begins_at, sink.mark()));
            let of = (&***site, *terms, *timing);
            state.record = Some(upstream.request.record(of, &self.transport, written, cx));
            let said = rate.or(passed.rate());
            state.pace = decide::pace(site, said, &upstream.request.parse(), &self.transport, cx);
            self.has_paces |= state.pace.is_some();
        }
        if let Some(record) = &mut state.record {
            record.of_program(upstream.clock.times());
        }
        let ends_with_head = is_written && written.is_some() && sink.is_empty() && !sink.has_trailers();
        if ends_with_head {
            sink.end_with_head();
            state.is_sent = true;
            if let Some(record) = state.record.take() {
                output.push_stream_end(record, 0);
            }
        }
        if let Some(from) = kept_from {
            state.pieces.take_behind(from).iter().for_each(|piece| upstream.store(piece));
        }
        state.pieces.is_complete = upstream.is_whole();
        upstream.make_room(state.pieces.bytes() as usize);
        let is_over = upstream.is_over();
        cx.tally.released.extend(upstream.released());
        match ended {
            Ok(Ended::Well | Ended::Retry) if is_over => self.upstream_over(id, cx),
            Ok(Ended::Well | Ended::Retry) => {}
            Err(fault) => self.give_up(id.stream(), fault, cx),
        }
    }

    /// The upstream has done its part. The rest of its response may still wait to be sent.
    fn upstream_over(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return };
        let state = &mut stream.user;
        let Some(Exchange { state: ExchangeState::Upstream(upstream), redirects, terms, .. }) =
            &mut state.exchange
        else {
            return;
        };
        if let Some((head, hand_off)) = upstream.redirected(*terms) {
            *redirects += 1;
            if *redirects > REDIRECTS_MAX {
                let fault = GatewayError::of_program("redirects to another path without end");
                return self.give_up(id.stream(), fault, cx);
            }
            return self.redirect(id.stream(), &head, hand_off, cx);
        }
        self.upstream_done(id.stream(), cx);
    }

    /// The upstream has nothing more for the client. Its exchange counts what has not been sent.
    pub(super) fn upstream_done(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let stores = stream.user.upstream_mut().is_some_and(|upstream| upstream.stores_response());
        if stream.user.pieces.is_empty() && !stores {
            self.end_exchange(id, cx);
        }
    }
}
