//! Reading: bytes from the client become requests, and requests are answered as far as possible.
//!
//! Whole requests are answered out of the driver's buffer. The bytes of other requests stay in the connection's input.

use flash_http::head::{self, Parsed};
use flash_http::status::Status;

use super::answer::Answered;
use super::drop_body::Dropped;
use super::request_body::RequestBody;
use super::state::{Current, Http1, Phase};
use crate::connection::context::Context;
use crate::exchange::ExchangeState;
use crate::record::refusal::Refusal;

impl Http1 {
    pub(crate) fn received(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        match &mut self.phase {
            // The common case: whole requests, answered out of the driver's own buffer.
            Phase::ReadRequest if self.input.is_empty() => {
                let used = self.read_requests(bytes, cx);
                let rest = &bytes[used..];
                match self.phase {
                    Phase::DropBody(_) => {
                        self.drop_bytes(rest, cx);
                        self.resume(cx);
                    }
                    _ if rest.is_empty() || !self.goes_on() => {}
                    _ => {
                        self.keep(rest, cx);
                        self.feed(cx);
                    }
                }
            }
            Phase::DropBody(_) => {
                self.drop_bytes(bytes, cx);
                self.resume(cx);
            }
            Phase::ReadRequest => {
                let seen = self.input.len();
                self.input.extend_from_slice(bytes);
                if head::may_progress(&self.input, seen, &cx.server.settings.head) {
                    self.resume(cx);
                }
            }
            Phase::Lingering { linger, .. } => {
                linger.dropped(bytes.len());
                self.deadline.linger_on(bytes.len(), cx.now.ms(), linger.until_ms());
                if linger.is_over(cx.now.ms()) {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Closing { .. } | Phase::Detached | Phase::Closed | Phase::CutOff => {}
            _ => {
                self.input.extend_from_slice(bytes);
                self.resume(cx);
            }
        }
    }

    /// The client has closed its sending side. It still gets the responses to its requests.
    pub(crate) fn received_end(&mut self, cx: &mut Context<'_>) {
        match &mut self.phase {
            Phase::Exchange(current) => {
                let Current { exchange, body, client, .. } = &mut **current;
                let Some(upstream) = exchange.upstream() else { return };
                // The client may still read: only sending tells. But no program may take a part of a request for the whole.
                client.has_ended = true;
                match body {
                    RequestBody::Tunnel => self.feed(cx),
                    // It has answered without the rest.
                    _ if upstream.reply.is_written() => {}
                    body if !body.ends_within(&self.input) => self.abort(cx),
                    _ => {}
                }
            }
            Phase::ReadRequest | Phase::DropBody(_) | Phase::Lingering { .. } => self.phase = Phase::Closed,
            Phase::BodyDropped(_)
            | Phase::Redirected(_)
            | Phase::Detached
            | Phase::Closing { .. }
            | Phase::Closed
            | Phase::CutOff => {}
        }
    }

    /// Continues with the bytes in `input`.
    pub(super) fn resume(&mut self, cx: &mut Context<'_>) {
        while !self.input.is_empty() {
            if self.is_exchanging_with_upstream() {
                return self.feed(cx);
            }
            let mut input = std::mem::take(&mut self.input);
            if let Phase::DropBody(_) = self.phase {
                self.drop_bytes(&input, cx);
                cx.buffers.give_back_input(input);
                continue;
            }
            let used = self.read_requests(&input, cx);
            if used == input.len() || !self.goes_on() {
                return cx.buffers.give_back_input(input);
            }
            input.drain(..used);
            self.input = input;
            if !matches!(self.phase, Phase::DropBody(_)) && !self.is_exchanging_with_upstream() {
                return;
            }
        }
    }

    /// Takes bytes that arrive while a body is dropped. Only the head of that request, and bytes behind the body, are kept.
    fn drop_bytes(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        let Phase::DropBody(body) = &mut self.phase else { return };
        match body.drop_from(bytes) {
            Dropped::Some => self.deadline.progressed(bytes.len() as u64),
            Dropped::Refused(reject) => {
                let head = body.take_head();
                if reject.status == Status::CONTENT_TOO_LARGE {
                    self.note_too_large(&head, cx);
                }
                self.refuse(reject, &head, cx);
            }
            Dropped::All(used) => {
                if let Phase::DropBody(body) = std::mem::replace(&mut self.phase, Phase::Closed) {
                    let (head, passed) = body.into_parts();
                    self.phase = Phase::BodyDropped(passed.into());
                    self.keep(&head, cx);
                    self.keep(&bytes[used..], cx);
                }
            }
        }
    }

    /// A body was too large, of the request with this head.
    fn note_too_large(&self, head: &[u8], cx: &Context<'_>) {
        if let Ok(Parsed::Complete { head, .. }) = head::parse(head, &head::Limits::NONE) {
            let site = cx.server.hosts.find(head.host).unwrap_or_else(|| cx.server.hosts.unnamed());
            cx.note_refusal(Refusal::BodyTooLarge, (&head, &self.transport), site, None);
        }
    }

    /// Answers the requests at the front of `input`. Returns how many bytes have been consumed.
    fn read_requests(&mut self, input: &[u8], cx: &mut Context<'_>) -> usize {
        let mut used = 0;
        while used < input.len() && self.takes_requests() {
            match head::parse(&input[used..], &cx.server.settings.head) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete { head, bytes }) => {
                    match self.answer(&head, &input[used..used + bytes], cx) {
                        Answered::Yes => used += bytes,
                        Answered::NotYet => break,
                    }
                }
                Err(reject) => {
                    self.refuse(reject, &input[used..], cx);
                    used = input.len();
                }
            }
        }
        if let Phase::Closing { linger } = &mut self.phase {
            *linger |= used < input.len();
        }
        used
    }

    fn takes_requests(&self) -> bool {
        match &self.phase {
            // The pace is of the response that is still in the output.
            Phase::ReadRequest => {
                self.pace.is_none() && !self.output.as_ref().is_some_and(|output| output.is_full())
            }
            Phase::BodyDropped(_) | Phase::Redirected(_) => true,
            Phase::Exchange(current) => match &current.exchange.state {
                ExchangeState::Login(login) => login.result().is_some(),
                ExchangeState::Lookup(lookup) => lookup.is_over(),
                ExchangeState::Body(_) | ExchangeState::Upstream(_) => false,
            },
            _ => false,
        }
    }

    /// Whether bytes behind the current request are worth keeping.
    fn goes_on(&self) -> bool {
        !matches!(self.phase, Phase::Closing { .. } | Phase::Lingering { .. } | Phase::Closed | Phase::CutOff)
    }
}
