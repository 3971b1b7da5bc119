//! HTTP/2 on one connection: many requests at a time, each an exchange on a stream of its own.
//!
//! [`flash_h2`] knows frames, HPACK, windows and limits. This module connects a client's streams with exchanges, and decides
//! what the connection does next. Heads of responses go straight into the output. Bodies wait in pieces, and become DATA
//! frames when the socket takes them.
//!
//! Calls between these files go one way. This file calls `receive`, `send`, `upstream` and `expiry`; `receive` calls
//! `answer`; `upstream` calls `answer` and `feed`. All of them change the `state`.

mod answer;
mod expiry;
mod feed;
mod pieces;
mod receive;
mod send;
mod sink;
mod state;
mod upstream;

use flash_h2::ErrorCode;

use crate::clients::deadline::Waiting;
use crate::clients::linger::Linger;
use crate::connection::context::Context;
use crate::connection::want::{Interest, Want};
use crate::exchange::body::Piece;
use crate::exchange::id::ExchangeId;
use crate::exchange::{Exchange, ExchangeState};
use crate::job::{Done, Job, Load, Outcome};

pub(crate) use self::state::Http2;
use self::state::{Draining, Phase};

/// Streams whose bodies may have a window of a file in memory at a time.
const WINDOWS_MAX: usize = 4;

impl Http2 {
    pub(crate) fn want(&mut self, cx: &mut Context<'_>) -> Want {
        match self.phase {
            Phase::Open => self.drain(cx),
            Phase::Closing => {}
            Phase::Lingering(_) => {
                self.wait(Waiting::Linger, cx);
                return Want::Receive;
            }
            Phase::Closed => return Want::Close,
            Phase::CutOff => return Want::Reset,
        }
        if cx.goes_with_jobs() && self.awaits_job() {
            self.paced_until_us = None;
            self.set_deadlines(cx);
            return Want::WaitJob;
        }
        self.read_on(cx);
        if self.can_send(cx)
            && let Some(output) = &mut self.output
        {
            output.shown(cx.now.us);
            self.wait(Waiting::Send, cx);
            return Want::Send;
        }
        if let Some((id, job)) = self.job(cx) {
            // A thread that does its jobs itself does not ask what to wait for.
            self.set_deadlines(cx);
            return Want::Job(id, job);
        }
        if let Some(id) = self.unchecked() {
            return Want::CheckLogin(id);
        }
        if self.phase == Phase::Closing {
            return self.close(cx);
        }
        if let Some(want) = self.upstream_want_before_reading() {
            return want;
        }
        let receives = self.input.is_empty() && !self.client.has_ended;
        if receives && !self.client.in_blocked {
            if !self.is_exchanging() {
                self.rest(cx);
            }
            return Want::Receive;
        }
        if let Some(want) = self.upstream_want_after_reading() {
            return want;
        }
        if self.client.has_ended && !self.is_exchanging() {
            self.phase = Phase::Closed;
            return Want::Close;
        }
        self.give_up_windows();
        self.set_deadlines(cx);
        let sends = self.output.as_ref().is_some_and(|output| !output.is_empty());
        let (upstream_in, upstream_out) = self.upstream_interest();
        Want::WaitIo(Interest { client_in: receives, client_out: sends, upstream_in, upstream_out })
    }

    /// The job that something needs, if it has not been handed out: first what the output misses, and then the most urgent
    /// stream's.
    fn job(&mut self, cx: &mut Context<'_>) -> Option<(ExchangeId, Job)> {
        let can_send = !self.client.out_blocked;
        if let Some((file, range)) = self.output.as_ref().and_then(|output| output.missing())
            && can_send
            && !self.restores
        {
            let (file, window, goes_to) = (std::sync::Arc::clone(file), range.clone(), range.end);
            self.restores = true;
            let load = Load { site: None, file, window, goes_to, copy: self.restores_copy, completes: None };
            return Some((ExchangeId::CONNECTION, Job::Load(load)));
        }
        let output_waits = self.output.as_ref().is_some_and(|output| !output.is_empty());
        let lookups = !(cx.goes_with_jobs() && output_waits);
        let streams = self.session.streams();
        let windows = streams.iter().filter(|stream| stream.user.holds_window()).count();
        let loads = can_send && !streams.is_stalled() && windows < WINDOWS_MAX;
        let id =
            streams.next(|stream| match stream.user.exchange.as_ref().map(|exchange| &exchange.state) {
                Some(ExchangeState::Lookup(lookup)) => lookups && lookup.wants_job(),
                Some(ExchangeState::Body(body)) => {
                    loads
                        && body.piece == Piece::Wanted
                        && stream.user.pieces.is_empty()
                        && !stream.is_stalled()
                        && stream.user.allowed() > 0
                }
                Some(ExchangeState::Upstream(upstream)) => upstream.wants_job(),
                Some(ExchangeState::Login(_)) | None => false,
            })?;
        let window = streams.window(id) as u64;
        let state = &mut self.session.streams_mut().get_mut(id)?.user;
        let window = window.min(state.allowed());
        let exchange = state.exchange.as_mut()?;
        let job = exchange.job(window)?;
        Some((exchange.id, job))
    }

    /// The most urgent exchange whose log-in is to be checked.
    fn unchecked(&self) -> Option<ExchangeId> {
        let wants_check = |exchange: &Exchange| exchange.wants_check();
        let next =
            self.session.streams().next(|stream| stream.user.exchange.as_ref().is_some_and(wants_check));
        next.map(ExchangeId::of_stream)
    }

    /// Whether a job has been handed out whose result has not come.
    fn awaits_job(&self) -> bool {
        let awaits = |exchange: &Exchange| exchange.awaits_job();
        self.restores
            || self.session.streams().iter().any(|stream| stream.user.exchange.as_ref().is_some_and(awaits))
    }

    pub(crate) fn completed(
        &mut self,
        id: ExchangeId,
        Outcome { done, spent, .. }: Outcome,
        cx: &mut Context<'_>,
    ) {
        if cx.goes_with_jobs() {
            // The connection may have been in a stage that gets no events of sockets.
            self.all_ready();
        }
        if id == ExchangeId::CONNECTION {
            return self.restored(done, cx);
        }
        let Some(stream) = self.session.streams_mut().get_mut(id.stream()) else { return };
        let state = &mut stream.user;
        let Some(exchange) = state.exchange.as_mut().filter(|exchange| exchange.awaits_job()) else {
            // Too late: the deadline has answered.
            return;
        };
        state.deadline.job_ended(exchange.stands_still(&done));
        match &mut exchange.state {
            ExchangeState::Login(login) => {
                exchange.timing.spent += spent;
                login.take(done);
                self.go_on(id.stream(), cx);
            }
            ExchangeState::Lookup(lookup) => {
                exchange.timing.spent += spent;
                lookup.take(done, cx.now.ms(), cx.server.settings.revalidate_ms);
                // A listing takes more than one job.
                if lookup.is_over() {
                    self.go_on(id.stream(), cx);
                }
            }
            ExchangeState::Body(_) => {
                if let Some(record) = &mut state.record {
                    record.spend(spent);
                }
                self.body_moved(id.stream(), done, cx);
            }
            ExchangeState::Upstream(_) => self.spooled(id.stream(), done, cx),
        }
    }

    /// What the output misses is ready again, or will never be.
    fn restored(&mut self, done: Done, cx: &mut Context<'_>) {
        self.restores = false;
        self.deadline.job_ended(false);
        let (Done::Window(window), Some(output)) = (done, &mut self.output) else {
            return self.abort(cx);
        };
        match window {
            // Asked for once more. If the window has left the page cache by then, for its bytes.
            crate::file::Window::Warmed => self.restores_copy = true,
            window => {
                self.restores_copy = false;
                if !output.restore(window) {
                    self.abort(cx);
                }
            }
        }
    }

    /// The end of a connection that takes no more requests, once everything is sent.
    fn close(&mut self, cx: &mut Context<'_>) -> Want {
        if self.output.as_ref().is_some_and(|output| !output.is_empty()) {
            self.give_up_windows();
            self.set_deadlines(cx);
            return Want::WaitIo(Interest { client_out: true, ..Interest::default() });
        }
        self.give_back_output(cx);
        self.phase = Phase::Lingering(Linger::begin(cx.now.ms()));
        Want::ShutdownWrite
    }

    /// While the server stops: tells the client, lets the streams under way end, and then closes.
    fn drain(&mut self, cx: &mut Context<'_>) {
        match self.draining {
            Draining::No if cx.drain.is_on() => {
                self.session.drain();
                self.draining = Draining::Told { until_ms: cx.now.ms() + DRAIN_MS };
            }
            Draining::Told { until_ms } if cx.now.ms() >= until_ms => self.end_requests(),
            _ => {}
        }
        if self.draining == Draining::LastKnown && self.session.streams().is_empty() {
            self.phase = Phase::Closing;
        }
    }

    fn end_requests(&mut self) {
        self.session.end_requests();
        self.draining = Draining::LastKnown;
    }

    /// Nothing is under way: the connection holds no buffer, and waits for its client.
    fn rest(&mut self, cx: &mut Context<'_>) {
        self.give_back_output(cx);
        self.set_deadlines(cx);
    }

    pub(crate) fn received_end(&mut self, cx: &mut Context<'_>) {
        if matches!(self.phase, Phase::Closing | Phase::Lingering(_)) || !self.is_exchanging() {
            self.phase = Phase::Closed;
            return;
        }
        self.client.has_ended = true;
        // The client may still read. But no program may take a part of a request for the whole.
        let open = self.session.streams().iter().filter(|stream| !stream.has_ended());
        let open: Vec<(u32, bool, bool)> =
            open.map(|stream| (stream.id, stream.user.is_sent, stream.user.exchange.is_some())).collect();
        for (id, is_sent, is_exchanging) in open {
            match (is_sent, is_exchanging) {
                (_, true) => self.reset(id, ErrorCode::CANCEL, cx),
                // The rest of its body would have been dropped.
                (true, false) => self.finish(id, true, cx),
                (false, false) => {}
            }
        }
    }
}

/// How long a client may take to answer the ping that shows that it knows of the drain.
const DRAIN_MS: u64 = 1_000;
