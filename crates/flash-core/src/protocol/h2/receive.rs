//! Reading: a client's bytes become events, and each event changes a stream.

use flash_h2::{ErrorCode, Event};
use flash_http::head::Reject;
use flash_http::status::Status;

use super::state::{Draining, Http2, Phase};
use crate::connection::context::Context;

impl Http2 {
    pub(crate) fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.phase {
            Phase::Open if self.input.is_empty() => {
                let used = self.read(bytes, cx);
                if used < bytes.len() && self.phase == Phase::Open {
                    self.input = cx.buffers.input();
                    self.input.extend_from_slice(&bytes[used..]);
                }
            }
            Phase::Open => {
                self.input.extend_from_slice(bytes);
                self.read_on(cx);
            }
            Phase::Lingering(linger) => {
                linger.dropped(bytes.len());
                self.deadline.linger_on(bytes.len(), cx.now.ms(), linger.until_ms());
                if linger.is_over(cx.now.ms()) {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Closing | Phase::Closed | Phase::CutOff => {}
        }
    }

    /// Goes on with bytes that waited until less had to be sent.
    pub(super) fn read_on(&mut self, cx: &mut Context<'_>) {
        if self.input.is_empty() || self.is_full() || self.phase != Phase::Open {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.read(&input, cx);
        if used < input.len() && self.phase == Phase::Open {
            input.drain(..used);
            self.input = input;
        } else {
            cx.buffers.give_back_input(input);
        }
    }

    /// Whether so much waits to be sent that no more requests are read.
    fn is_full(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.is_full())
    }

    /// Returns how many of the bytes have been read.
    fn read(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> usize {
        // RFC 9113 §3.4: the settings come before all responses.
        self.write_control(cx);
        let mut scratch = cx.buffers.scratch();
        let mut input = bytes;
        while self.phase == Phase::Open && !self.is_full() {
            match self.session.next(&mut input, &mut scratch, cx.now.ms()) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    // RFC 9113 §6.5.3: so does the acknowledgement of the client's settings.
                    self.write_control(cx);
                    self.take(event, &scratch.text, cx);
                }
                Err(error) => self.fail(error, cx),
            }
        }
        cx.buffers.give_back_scratch(scratch);
        bytes.len() - input.len()
    }

    fn take(&mut self, event: Event<'_, super::state::StreamState>, text: &[u8], cx: &mut Context<'_>) {
        if matches!(event, Event::Request { .. } | Event::TooLarge { .. }) {
            self.idle_from_ms = None;
        }
        match event {
            Event::Request { stream, priority, ends_stream } => {
                self.request(stream, priority, ends_stream, text, cx);
            }
            Event::TooLarge { stream, ends_stream } => {
                let reject = Reject { status: Status::FIELDS_TOO_LARGE, reason: "the head is too long" };
                self.refuse(stream, ends_stream, reject, b"", cx);
            }
            Event::Data { stream, bytes, ends_stream } => self.data(stream, bytes, ends_stream, cx),
            Event::End { stream } => {
                if let Some(stream) = self.session.streams_mut().get_mut(stream) {
                    stream.user.body.trailers = text.into();
                }
                self.data(stream, b"", true, cx);
            }
            Event::Reset(stream) => self.over(stream, cx),
            Event::Window => {}
            Event::Pong => {
                if matches!(self.draining, Draining::Told { .. }) {
                    self.end_requests();
                }
            }
        }
    }

    /// A piece of a request's body.
    fn data(&mut self, id: u32, bytes: &[u8], ends_stream: bool, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let state = &mut stream.user;
        state.body.received += bytes.len() as u64;
        state.body.has_ended |= ends_stream;
        state.deadline.progressed(bytes.len() as u64);
        let is_right = match &mut state.body.left {
            None => true,
            Some(left) => match left.checked_sub(bytes.len() as u64) {
                Some(rest) => {
                    *left = rest;
                    !(ends_stream && rest > 0)
                }
                None => false,
            },
        };
        // RFC 9113 §8.1.1.
        if !is_right {
            self.session.consumed(id, bytes.len());
            return self.client_error(id, ErrorCode::PROTOCOL_ERROR, cx);
        }
        match state.exchange.as_ref() {
            Some(exchange) if exchange.may_take_body() => {
                state.body.waiting.extend_from_slice(bytes);
                self.feed(id, cx);
            }
            _ => {
                if let Some(linger) = &mut state.linger {
                    linger.dropped(bytes.len());
                    state.deadline.linger_on(bytes.len(), cx.now.ms(), linger.until_ms());
                }
                let is_over = state.is_sent && state.exchange.is_none();
                self.session.consumed(id, bytes.len());
                if is_over {
                    self.finish(id, ends_stream, cx);
                }
            }
        }
    }
}
