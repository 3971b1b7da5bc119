//! The request's body on its way from a stream to its program.

use flash_http::status::Status;

use super::state::Http2;
use crate::connection::context::Context;
use crate::exchange::upstream::{GatewayError, JobDone, RequestBodyLength};
use crate::job::Done;
use crate::record::counters::Count;
use crate::record::refusal::Refusal;

impl Http2 {
    /// Gives the upstream the part of the request's body that has arrived. The client may then send more.
    pub(crate) fn feed(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let state = &mut stream.user;
        let body = &mut state.body;
        let Some(exchange) = &mut state.exchange else { return };
        let body_bytes_max = exchange.terms.body_bytes_max;
        if body.length == RequestBodyLength::Unknown
            && body.received > body_bytes_max
            && let Some(upstream) = exchange.upstream()
        {
            let of = (&*upstream.request.parse(), &self.transport);
            cx.note_refusal(Refusal::BodyTooLarge, of, &exchange.site, None);
            return self.give_up(id, GatewayError::with(Status::CONTENT_TOO_LARGE), cx);
        }
        let Some(upstream) = exchange.upstream_mut() else { return };
        if body.has_ended {
            upstream.body_arrived(body.waiting.len());
        }
        upstream.give_spooled();
        let mut used = 0;
        while used < body.waiting.len() {
            let room = upstream.body_room();
            if room == 0 {
                break;
            }
            let end = body.waiting.len().min(used + room);
            upstream.put_body(&body.waiting[used..end]);
            used = end;
        }
        body.waiting.drain(..used);
        if body.waiting.is_empty() {
            body.waiting = Vec::new();
            if body.has_ended && !upstream.body_has_ended() {
                upstream.put_trailers(&body.trailers);
                upstream.end_body();
            }
        }
        self.session.consumed(id, used);
    }

    /// A job has written a part of the body, or read it back.
    pub(super) fn spooled(&mut self, id: u32, done: Done, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let Some(upstream) = stream.user.upstream_mut() else { return };
        match upstream.job_done(done) {
            Ok(JobDone::Written(bytes)) => cx.tally.counts.add(Count::SpooledBytes, bytes),
            Ok(JobDone::Response(part)) => stream.user.pieces.push_bytes(part, None),
            Ok(JobDone::Refused(reason)) => {
                upstream.request.complain(reason, cx);
            }
            Ok(JobDone::Nothing) => {}
            Err(fault) => return self.give_up(id, fault, cx),
        }
        stream.user.send_stored();
        self.feed(id, cx);
    }
}
