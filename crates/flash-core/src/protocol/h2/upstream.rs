//! Streams that upstreams answer: the driver's calls, and how such an exchange begins and ends.

use std::net::SocketAddr;
use std::sync::Arc;

use super::sink::Sink;
use super::state::{Http2, StreamState};
use crate::context::Context;
use crate::exchange::sink::BodySink;
use crate::exchange::upstream::{
    Ended, GatewayError, Need, REDIRECTS_MAX, ResponseState, UpstreamExchange, Writer,
};
use crate::exchange::{Exchange, ExchangeState, recording};
use crate::exchange_id::ExchangeId;
use crate::transport::ClientCertificate;
use crate::upstream::{Open, Opened};
use crate::want::Want;

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
        let interests = self.session.streams().iter().map(|stream| interest(&stream.user));
        interests.fold((false, false), |all, one| (all.0 | one.0, all.1 | one.1))
    }

    fn upstream_of(&self, id: ExchangeId) -> Option<&UpstreamExchange> {
        self.session.streams().get(id.stream())?.user.exchange.as_ref()?.upstream()
    }

    pub(crate) fn upstream_mut(&mut self, id: ExchangeId) -> Option<&mut UpstreamExchange> {
        self.session.streams_mut().get_mut(id.stream())?.user.upstream_mut()
    }

    /// What to open. Returns `None` if no route leads there; the connection has then answered itself.
    pub(crate) fn begin(
        &mut self,
        id: ExchangeId,
        local: Option<SocketAddr>,
        certificate: Option<&ClientCertificate>,
        cx: &mut Context<'_>,
    ) -> Option<Open> {
        let transport = self.transport;
        let exchange = self.session.streams_mut().get_mut(id.stream())?.user.exchange.as_mut()?;
        let site = Arc::clone(&exchange.site);
        let of = (&*site, exchange.terms, exchange.timing);
        // Other responses share the client's socket, so no program gets it.
        let begin = exchange.upstream_mut()?.begin(of, (&transport, certificate), local, false, cx);
        if begin.is_none() {
            self.give_up(id.stream(), GatewayError::of_program("stands where no route leads"), cx);
        }
        begin
    }

    /// Returns whether the exchange takes the result of [`Http2::begin`]. If it is too late, the stream is of no use.
    pub(crate) fn begun(&mut self, id: ExchangeId, begun: Opened<()>, cx: &mut Context<'_>) -> bool {
        if !self.upstream_of(id).is_some_and(UpstreamExchange::is_opening) {
            return false;
        }
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return false };
        let Some(upstream) = stream.user.upstream_mut() else { return false };
        upstream.program_lives(cx);
        match upstream.begun(begun) {
            Ok(()) => self.feed(id.stream(), cx),
            Err(fault) => self.give_up(id.stream(), fault, cx),
        }
        true
    }

    /// Which directions of its stream the exchange waits for: to read, and to write.
    pub(crate) fn interest_of(&self, id: ExchangeId) -> (bool, bool) {
        self.session.streams().get(id.stream()).map_or((false, false), |stream| interest(&stream.user))
    }

    pub(crate) fn to_upstream(&self, id: ExchangeId) -> &[u8] {
        self.upstream_of(id).map_or(&[], UpstreamExchange::to_upstream)
    }

    pub(crate) fn upstream_sent(&mut self, id: ExchangeId, count: usize, cx: &mut Context<'_>) {
        if let Some(upstream) = self.upstream_mut(id) {
            upstream.upstream_sent(count);
            upstream.program_lives(cx);
            self.feed(id.stream(), cx);
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
            self.feed(id.stream(), cx);
        }
    }

    /// The upstream has written something, which goes into the stream's pieces.
    fn hear(
        &mut self,
        id: ExchangeId,
        cx: &mut Context<'_>,
        what: impl FnOnce(&mut UpstreamExchange, &mut Writer<'_, Sink<'_>>) -> Result<Ended, GatewayError>,
    ) {
        self.empties_table |= self.session.empties_table();
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return };
        let state = &mut stream.user;
        let Some(Exchange {
            state: ExchangeState::Upstream(upstream), timing, head_only, site, terms, ..
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
        let mut writer = Writer {
            site,
            refusals: &cx.server.refusals,
            now: cx.now,
            limits: &cx.server.settings.program_head,
            sink: &mut sink,
            head_only: *head_only,
            accepts: upstream.request.accepts,
            head: None,
        };
        // What follows a stored part is stored behind it.
        let kept_from = upstream.stores_response().then_some(waiting_bytes);
        let heard = what(upstream, &mut writer);
        let written = writer.head;
        let is_written = upstream.reply.is_written();
        if let Some((status, _)) = written {
            cx.tally.responses += 1;
            // A response that empties the client's table stays, because later ones build on that.
            upstream.head_at = (!empties_table).then(|| (begins_at, sink.mark()));
            let head = upstream.request.parse();
            let record = recording::record(&head, (site, &self.transport), (status, 0), *timing, cx);
            state.record = Some(record.by(|| terms.user_of(&head)));
        }
        let ends_with_head = is_written && written.is_some() && sink.is_empty();
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
        match heard {
            Ok(Ended::Well | Ended::Retry) if is_over => self.upstream_over(id, cx),
            Ok(Ended::Well | Ended::Retry) => {}
            Err(fault) => self.give_up(id.stream(), fault, cx),
        }
    }

    /// The upstream has done its part. The rest of its response may still wait to be sent.
    fn upstream_over(&mut self, id: ExchangeId, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return };
        let state = &mut stream.user;
        let Some(Exchange { state: ExchangeState::Upstream(upstream), redirects, .. }) = &mut state.exchange
        else {
            return;
        };
        if let ResponseState::Redirect { target, .. } = &upstream.reply {
            *redirects += 1;
            if *redirects > REDIRECTS_MAX {
                let fault = GatewayError::of_program("redirects to another path without end");
                return self.give_up(id.stream(), fault, cx);
            }
            let head = upstream.request.redirected(target);
            return self.redirect(id.stream(), &head, cx);
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

    /// How many bytes of the upstream's stream are read at a time.
    pub(crate) fn piece_bytes(&self, id: ExchangeId) -> Option<usize> {
        let state = &self.session.streams().get(id.stream())?.user;
        let upstream = state.exchange.as_ref()?.upstream()?;
        Some(upstream.piece_bytes(state.pieces.bytes() as usize))
    }
}

fn interest(state: &StreamState) -> (bool, bool) {
    let upstream = state.exchange.as_ref().and_then(Exchange::upstream);
    upstream.map_or((false, false), |upstream| upstream.awaited(state.pieces.bytes() as usize))
}
