//! HTTP/1 on one connection: a request is read, its exchange is answered, and the next request follows.
//!
//! This module knows what only HTTP/1 has: incomplete requests, bytes to be sent, and the end of a body on the wire. It also
//! decides whether the connection stays open. It closes the connection in a way that lets the client receive everything.
//!
//! Calls between these files go one way. This file calls `upstream`; `upstream` and `expiry` call `read`; `read` calls `feed`;
//! `feed` calls `answer`. All of them change the `state`.

mod answer;
mod client;
mod drop_body;
mod expiry;
mod feed;
mod framing;
mod persistence;
mod read;
mod request_body;
mod state;
mod upstream;

use crate::clients::deadline::Waiting;
use crate::clients::linger::Linger;
use crate::connection::context::{Context, Drain};
use crate::connection::want::{Direction, Want};
use crate::exchange::ExchangeState;
use crate::exchange::body::Piece;
use crate::exchange::id::ExchangeId;
use crate::job::{Job, Outcome};
use crate::record::counters::Count;

use self::framing::Sink;
pub(crate) use self::state::Http1;
use self::state::{Current, Phase, Why};

impl Http1 {
    pub(crate) fn want(&mut self, cx: &mut Context<'_>) -> Want {
        if self.is_exchanging_with_upstream() {
            // Its program may have been given up when nothing was left to send.
            if self.upstream().is_some_and(|upstream| upstream.is_over() && !upstream.awaits_body())
                && self.output.as_ref().is_none_or(|output| output.is_empty())
            {
                self.leave_upstream(cx);
                return self.want(cx);
            }
            return self.want_of_upstream(cx);
        }
        if self.is_paced(cx.now.us) {
            self.send_blocked();
            self.deadline.wait(Waiting::Nothing, cx.now.ms(), &cx.server.settings);
            return Want::Pause;
        }
        if let Some((id, job)) = self.job(cx) {
            self.deadline.job_begins(cx.now.ms(), &cx.server.settings);
            return Want::Job(id, job);
        }
        if let Some(output) = self.output.as_mut().filter(|output| !output.is_empty()) {
            output.shown(cx.now.us);
            output.allow(self.pace.as_ref().map(|pace| pace.allowed()));
            self.deadline.wait(Waiting::Send, cx.now.ms(), &cx.server.settings);
            return Want::Send;
        }
        let waiting = match &self.phase {
            Phase::ReadRequest if self.input.is_empty() && cx.drain == Drain::AtOnce => {
                if !self.deadline.may_send_last_request(cx.now.ms(), &cx.server.settings) {
                    self.phase = Phase::Closed;
                    return Want::Close;
                }
                Waiting::LastRequest
            }
            // A new client that sends nothing is not idle: its first head is due.
            Phase::ReadRequest if self.input.is_empty() && !self.deadline.is_for(Waiting::Head) => {
                Waiting::Idle
            }
            Phase::ReadRequest => Waiting::Head,
            Phase::DropBody(_) => Waiting::Body,
            // The kernel delivers the rest without the server.
            Phase::Lingering { why: Why::Unflushed, .. } if cx.drain.is_on() => {
                self.phase = Phase::Closed;
                return Want::Close;
            }
            Phase::Lingering { .. } => Waiting::Linger,
            // Earlier responses have been sent, so the connection may wait wherever it likes.
            Phase::Exchange(current) if current.exchange.wants_check() => {
                return Want::CheckLogin(current.exchange.id);
            }
            Phase::BodyDropped(_) | Phase::Redirected(_) | Phase::Exchange(_) => {
                self.deadline.wait(Waiting::Completion, cx.now.ms(), &cx.server.settings);
                return Want::WaitJob;
            }
            Phase::Closing { linger } if *linger || self.deadline.may_have_to_flush() => {
                let why = if *linger { Why::Unread } else { Why::Unflushed };
                self.phase = Phase::Lingering { linger: Linger::begin(cx.now.ms()), why };
                return Want::ShutdownWrite;
            }
            Phase::Detached => return Want::Detach,
            Phase::Closing { .. } | Phase::Closed => return Want::Close,
            Phase::CutOff => return Want::Reset,
        };
        self.deadline.wait(waiting, cx.now.ms(), &cx.server.settings);
        Want::Receive
    }

    /// The job that the state needs, if the job has not been handed out.
    fn job(&mut self, cx: &Context<'_>) -> Option<(ExchangeId, Job)> {
        match &mut self.phase {
            // The connection moves to another thread with its look-up. Earlier responses are sent first, so that they do
            // not wait there.
            Phase::Exchange(current)
                if cx.goes_with_jobs()
                    && self.output.is_some()
                    && matches!(current.exchange.state, ExchangeState::Lookup(_)) =>
            {
                None
            }
            Phase::Exchange(current) => {
                let window_max = self.pace.as_ref().map_or(u64::MAX, |pace| pace.allowed());
                Some((current.exchange.id, current.exchange.job(window_max)?))
            }
            _ => None,
        }
    }

    /// The socket took this many bytes of the output.
    pub(crate) fn sent(&mut self, bytes: u64, cx: &mut Context<'_>) {
        let Some(output) = &mut self.output else { return };
        if let Some(pace) = &mut self.pace {
            pace.sent(bytes);
        }
        output.sent(bytes, cx.now.us, cx.tally);
        cx.tally.counts.add(Count::SentBytes, bytes);
        self.deadline.progressed(bytes);
        if let Phase::Exchange(current) = &mut self.phase
            && let Some(upstream) = current.exchange.upstream_mut()
        {
            upstream.client_took(bytes, cx);
        }
        if output.is_empty() {
            cx.tally.counts.add(Count::SendUs, output.took_us(cx.now.us));
            self.drained(cx);
        }
    }

    /// The socket takes no more for now. If a window of a file is in the output, it is made ready again before the next
    /// attempt. Returns whether the connection may want something else meanwhile.
    pub(crate) fn send_blocked(&mut self) -> bool {
        let Phase::Exchange(current) = &mut self.phase else { return false };
        match (&mut current.exchange.state, &mut self.output) {
            (ExchangeState::Upstream(_), _) => {
                current.client.blocked(Direction::Out);
                return true;
            }
            (ExchangeState::Body(body), Some(output)) => {
                if let Some(range) = output.take_back_window() {
                    body.put_back(range);
                }
            }
            _ => {}
        }
        false
    }

    /// The socket has nothing to read for now. Returns whether the connection may want something else meanwhile.
    pub(crate) fn receive_blocked(&mut self) -> bool {
        match &mut self.phase {
            Phase::Exchange(current) if current.exchange.upstream().is_some() => {
                current.client.blocked(Direction::In);
                true
            }
            _ => false,
        }
    }

    fn drained(&mut self, cx: &mut Context<'_>) {
        if let (Phase::Exchange(current), Some(output)) = (&mut self.phase, &mut self.output) {
            let Current { exchange, framing, .. } = &mut **current;
            match &mut exchange.state {
                ExchangeState::Login(_) | ExchangeState::Lookup(_) => {}
                ExchangeState::Upstream(_) => return self.leave_upstream(cx),
                ExchangeState::Body(body) if body.awaits_job() => return,
                ExchangeState::Body(body) => {
                    let more = body.next(&mut Sink { output, framing, request_id: None });
                    if output.is_empty() && more {
                        // The client has taken all that there was.
                        self.deadline.wait(Waiting::Nothing, cx.now.ms(), &cx.server.settings);
                    }
                    if more || !output.is_empty() {
                        return;
                    }
                    if let Some(unfinished) = exchange.record.take() {
                        cx.tally.end(unfinished.finish(output.response_bytes_sent(), cx.now.us));
                    }
                    self.phase = Phase::after(framing.persistence);
                }
            }
        }
        if let Some(output) = self.output.take() {
            cx.buffers.give_back_output(output);
        }
        self.pace = None;
        self.resume(cx);
    }

    pub(crate) fn completed(
        &mut self,
        id: ExchangeId,
        Outcome { done, spent, .. }: Outcome,
        cx: &mut Context<'_>,
    ) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        let Current { exchange, framing, .. } = &mut **current;
        if exchange.id != id || !exchange.awaits_job() {
            // Too late: the deadline has answered.
            return;
        }
        self.deadline.job_ended(exchange.stands_still(&done));
        match &mut exchange.state {
            ExchangeState::Login(login) => {
                exchange.timing.spent += spent;
                login.take(done);
                self.resume(cx);
            }
            ExchangeState::Lookup(lookup) => {
                exchange.timing.spent += spent;
                lookup.take(done, cx.now.ms(), cx.server.settings.revalidate_ms);
                self.resume(cx);
            }
            ExchangeState::Body(body) => {
                if let Some(record) = &mut exchange.record {
                    record.spend(spent);
                }
                let output = self.output.get_or_insert_with(|| cx.buffers.output());
                if body.take(done, &mut Sink { output, framing, request_id: None }).is_err() {
                    self.abort(cx);
                } else if output.is_empty() && body.piece == Piece::Ready {
                    self.drained(cx);
                }
            }
            ExchangeState::Upstream(_) => self.body_moved(done, cx),
        }
    }
}
