//! Sending: the most urgent streams fill the output with DATA frames, in turns, whenever the socket has taken what was there.

use flash_h2::ErrorCode;
use flash_h2::frame::PAYLOAD_BYTES_MAX;

use super::sink::Sink;
use super::state::{Http2, Phase};
use crate::connection::context::Context;
use crate::exchange::body::Piece;
use crate::exchange::{Exchange, ExchangeState};
use crate::job::Done;
use crate::record::counters::Count;

/// How much the output takes at a time. A more urgent response waits for no more than this.
const FILL_BYTES: usize = 128 << 10;

impl Http2 {
    /// Puts what can be sent into the output. Returns whether there is something to send now.
    pub(super) fn can_send(&mut self, cx: &mut Context<'_>) -> bool {
        self.write_control(cx);
        self.paced_until_us = None;
        if self.client.out_blocked {
            return false;
        }
        if self.has_paces {
            self.open_paces(cx.now.us);
        }
        if self.phase == Phase::Open
            && !self.session.streams().is_empty()
            && self.output.as_ref().is_none_or(|output| output.is_empty())
        {
            self.fill(cx);
        }
        self.output.as_ref().is_some_and(|output| !output.is_empty() && output.missing().is_none())
    }

    /// Finds out how much each stream may send whose client has a rate. A stream reserves no more than its window takes.
    fn open_paces(&mut self, now_us: u64) {
        self.has_paces = false;
        let window_of_all = self.session.streams().window_of_all();
        for stream in self.session.streams_mut().iter_mut() {
            let window = stream.window().min(window_of_all);
            let state = &mut stream.user;
            let in_body = match state.exchange.as_ref().map(|exchange| &exchange.state) {
                Some(ExchangeState::Body(body)) if body.piece == Piece::Wanted => body.bytes_left(),
                _ => 0,
            };
            let waiting = state.pieces.bytes().saturating_add(in_body).min(window);
            let Some(pace) = &mut state.pace else { continue };
            self.has_paces = true;
            if pace.allows(waiting, now_us) == 0 && waiting > 0 {
                let due_us = pace.due_us().into_iter().chain(self.paced_until_us);
                self.paced_until_us = due_us.min();
            }
        }
    }

    fn fill(&mut self, cx: &mut Context<'_>) {
        let mut left = FILL_BYTES;
        while left > 0 {
            let streams = self.session.streams();
            let is_stalled = streams.is_stalled();
            let next = streams.next(|stream| {
                let state = &stream.user;
                match state.pieces.bytes() {
                    _ if state.is_sent => false,
                    0 => state.pieces.is_complete,
                    _ => !is_stalled && !stream.is_stalled() && state.allowed() > 0,
                }
            });
            let Some(id) = next else { break };
            // RFC 9218 §10: equals share the connection, a frame for each.
            let window = streams.window(id).min(PAYLOAD_BYTES_MAX);
            let output = self.output.get_or_insert_with(|| cx.buffers.output());
            let Some(stream) = self.session.streams_mut().get_mut(id) else { break };
            let state = &mut stream.user;
            let window = window.min(usize::try_from(state.allowed()).unwrap_or(usize::MAX));
            let sent = state.pieces.write_frame(id, window, output);
            state.body_bytes_sent += sent as u64;
            if let Some(pace) = &mut state.pace {
                pace.sent(sent as u64);
            }
            state.deadline.progressed(sent as u64);
            if let Some(upstream) = state.upstream_mut() {
                upstream.client_took(sent as u64, cx);
            }
            state.is_sent = state.pieces.is_complete && state.pieces.is_empty();
            self.session.sent(id, sent);
            self.session.streams_mut().served(id);
            left = left.saturating_sub(sent.max(1 << 10));
            self.framed(id, cx);
        }
        // Control frames follow what they are about.
        self.write_control(cx);
    }

    /// A frame of a stream is in the output: its next piece is due, or its response is complete.
    fn framed(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let has_ended = stream.has_ended();
        let state = &mut stream.user;
        if !state.pieces.is_empty() {
            return;
        }
        if state.is_sent {
            if let Some(record) = state.record.take() {
                let output = self.output.get_or_insert_with(|| cx.buffers.output());
                output.push_stream_end(record, state.body_bytes_sent);
            }
            match &mut state.exchange {
                // The upstream may go on for a while.
                Some(Exchange { state: ExchangeState::Upstream(upstream), .. }) if !upstream.is_over() => {
                    upstream.make_room(0);
                }
                _ => self.finish(id, has_ended, cx),
            }
            return;
        }
        match state.exchange.as_mut().map(|exchange| &mut exchange.state) {
            Some(ExchangeState::Body(body)) if !body.awaits_job() => {
                let output = self.output.get_or_insert_with(|| cx.buffers.output());
                let mut sink = Sink::new(output, &mut state.pieces, id, &mut self.empties_table, 0);
                let goes_on = body.next(&mut sink);
                state.pieces.is_complete |= !goes_on;
            }
            Some(ExchangeState::Upstream(_)) => state.send_stored(),
            _ => {}
        }
    }

    /// A job about a response's body has ended.
    pub(super) fn body_moved(&mut self, id: u32, done: Done, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let state = &mut stream.user;
        let Some(Exchange { state: ExchangeState::Body(body), .. }) = &mut state.exchange else { return };
        let output = self.output.get_or_insert_with(|| cx.buffers.output());
        let mut sink = Sink::new(output, &mut state.pieces, id, &mut self.empties_table, 0);
        if body.take(done, &mut sink).is_err() {
            return self.reset(id, ErrorCode::INTERNAL_ERROR, cx);
        }
        if state.pieces.is_empty() && body.piece == Piece::Ready {
            let goes_on =
                body.next(&mut Sink::new(output, &mut state.pieces, id, &mut self.empties_table, 0));
            state.pieces.is_complete |= !goes_on;
        } else {
            state.pieces.is_complete |= body.is_finished();
        }
    }

    /// Before a wait: no window stays in memory, and none is trusted to be in the page cache afterwards.
    pub(super) fn give_up_windows(&mut self) {
        for stream in self.session.streams_mut().iter_mut() {
            let state = &mut stream.user;
            if let Some(Exchange { state: ExchangeState::Body(body), .. }) = &mut state.exchange
                && let Some(range) = state.pieces.take_back_window()
            {
                state.pieces.is_complete = false;
                body.put_back(range);
            }
        }
        if let Some(output) = &mut self.output {
            output.give_up_windows();
        }
    }

    /// The socket took this many bytes of the output.
    pub(crate) fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        let Some(output) = &mut self.output else { return };
        output.sent(bytes, cx.now.us, cx.tally);
        cx.tally.counts.add(Count::SentBytes, bytes);
        self.deadline.progressed(bytes);
        if output.is_empty() {
            cx.tally.counts.add(Count::SendUs, output.took_us(cx.now.us));
        }
        if self.session.streams().is_stalled() {
            return;
        }
        // A stream whose window is open waits for more urgent ones, which the client takes.
        for stream in self.session.streams_mut().iter_mut().filter(|stream| !stream.is_stalled()) {
            if let Some(upstream) = stream.user.upstream_mut() {
                upstream.client_took(bytes, cx);
            }
        }
    }

    /// The socket takes no more for now. The connection may want something else meanwhile.
    pub(crate) fn send_blocked(&mut self) -> bool {
        self.client.out_blocked = true;
        self.give_up_windows();
        true
    }
}
