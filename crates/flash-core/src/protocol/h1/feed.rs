//! The request's body on its way from the input to the program.

use flash_http::chunked::Part;
use flash_http::status::Status;

use super::request_body::RequestBody;
use super::state::{Current, Http1, Phase};
use crate::connection::context::Context;
use crate::exchange::upstream::{GatewayError, JobDone};
use crate::job::Done;
use crate::record::counters::Count;
use crate::record::refusal::Refusal;

impl Http1 {
    /// Gives the upstream the part of the request's body that has arrived.
    pub(crate) fn feed(&mut self, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, body, client, .. } = &mut **current;
        let body_bytes_max = exchange.terms.body_bytes_max;
        let Some(upstream) = exchange.upstream_mut() else { return };
        if let RequestBody::Length { left } = body
            && *left <= self.input.len() as u64
        {
            upstream.body_arrived(*left as usize);
        }
        upstream.give_spooled();
        let mut used = 0;
        while !body.is_complete() && used < self.input.len() {
            let room = upstream.body_room();
            if room == 0 {
                break;
            }
            let piece = &self.input[used..self.input.len().min(used + room)];
            let put = |part: Part<'_>| match part {
                Part::Data(data) => upstream.put_body(data),
                Part::Trailers(lines) => upstream.put_trailers(lines),
            };
            match body.read(piece, body_bytes_max, put) {
                Ok(taken) => used += taken,
                Err(reject) => {
                    if reject.status == Status::CONTENT_TOO_LARGE
                        && let Some(upstream) = exchange.upstream()
                    {
                        let of = (&*upstream.request.parse(), &self.transport);
                        cx.note_refusal(Refusal::BodyTooLarge, of, &exchange.site, None);
                    }
                    return self.give_up(GatewayError::with(reject.status), cx);
                }
            }
            if body.is_complete() {
                upstream.end_body();
            }
        }
        self.input.drain(..used);
        if let RequestBody::Tunnel = body {
            if used > 0 {
                upstream.program_lives(cx);
            }
            if client.has_ended && self.input.is_empty() {
                upstream.end_tunnel();
            }
        }
        self.deadline.progressed(used as u64);
        if self.input.is_empty() {
            cx.buffers.give_back_input(std::mem::take(&mut self.input));
        }
    }

    /// A job has written a part of the body, or read it back.
    pub(super) fn body_moved(&mut self, done: Done, cx: &mut Context<'_>) {
        // The connection may have been in a stage that gets no events of sockets.
        self.client_ready();
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Some(upstream) = current.exchange.upstream_mut() else { return };
        match upstream.job_done(done) {
            Ok(JobDone::Written(bytes)) => {
                cx.tally.counts.add(Count::SpooledBytes, bytes);
                self.send_stored(&[], cx);
            }
            Ok(JobDone::Response(part)) => self.send_stored(&part, cx),
            Ok(JobDone::Refused(reason)) => {
                upstream.request.complain(reason, cx);
                self.send_stored(&[], cx);
            }
            Ok(JobDone::Nothing) => {}
            Err(fault) => return self.give_up(fault, cx),
        }
        self.feed(cx);
    }
}
