//! When time is over: of the connection, and of each stream.

use flash_h2::{ConnectionError, ErrorCode, Stream};
use flash_http::status::Status;

use super::state::{Draining, Http2, Phase, StreamState};
use crate::clients::deadline::{Expired, Waiting};
use crate::connection::context::Context;
use crate::connection::evictable::Evictable;
use crate::exchange::lookup::Lookup;
use crate::exchange::upstream::{Awaited, GatewayError};
use crate::exchange::{Exchange, ExchangeState};
use crate::job::Failure;
use crate::record::counters::Count;
use crate::server::Settings;

impl Http2 {
    /// When [`Http2::expire`] is due, in the server's milliseconds.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.due_ms
    }

    /// When a stream may send more, if its client's rate is what it waits for.
    pub(crate) fn paced_until_us(&self) -> Option<u64> {
        self.paced_until_us
    }

    /// Whether the connection may be closed for a new one, and how early.
    pub(crate) fn evictable(
        &self,
        now_ms: u64,
        settings: &Settings,
        unacknowledged: impl FnOnce() -> u64,
    ) -> Option<Evictable> {
        let is_open = self.phase == Phase::Open && !self.is_exchanging();
        let silent_since_ms = || self.deadline.silent_since_ms(settings);
        let streams = self.session.streams();
        match () {
            // Of its first request, or of one that has begun.
            () if is_open && (self.session.is_new() || self.session.is_within()) => {
                Some(Evictable::Unfinished(silent_since_ms()))
            }
            () if is_open => Some(Evictable::Idle(silent_since_ms())),
            // Each stream waits for the client. The one that waits least counts.
            () if self.deadline.is_for(Waiting::Nothing) => {
                let behind =
                    |stream: &Stream<StreamState>| stream.user.deadline.behind(now_ms, settings, || 0);
                let all: Option<Vec<Evictable>> = streams.iter().map(behind).collect();
                all?.into_iter().max()
            }
            () => self.deadline.behind(now_ms, settings, unacknowledged),
        }
    }

    /// Begins the connection's own wait.
    pub(super) fn wait(&mut self, waiting: Waiting, cx: &Context<'_>) {
        self.deadline.wait(waiting, cx.now.ms(), &cx.server.settings);
        self.due_ms = self.due_ms.min(self.deadline.ms());
        if waiting == Waiting::Linger {
            self.due_ms = self.deadline.ms();
        }
    }

    /// Says what the connection and each of its streams wait for.
    pub(super) fn set_deadlines(&mut self, cx: &Context<'_>) {
        let (now_ms, settings) = (cx.now.ms(), &cx.server.settings);
        let has_output = self.output.as_ref().is_some_and(|output| !output.is_empty());
        let is_stalled = self.session.streams().is_stalled();
        let has_data = |stream: &Stream<StreamState>| stream.user.has_data();
        let is_idle = self.session.streams().is_empty();
        let waiting = match () {
            () if self.restores => Waiting::Completion,
            () if has_output || is_stalled && self.session.streams().iter().any(has_data) => Waiting::Send,
            () if is_idle && self.session.is_within() => Waiting::Head,
            // A new client that sends nothing is not idle: its first request is due.
            () if is_idle && self.deadline.is_for(Waiting::Head) && self.session.is_new() => Waiting::Head,
            () if is_idle => Waiting::Idle,
            () => Waiting::Nothing,
        };
        self.deadline.wait(waiting, now_ms, settings);
        if waiting == Waiting::Idle {
            let since_ms = *self.idle_from_ms.get_or_insert(now_ms);
            self.deadline.is_idle_since(since_ms, settings);
        }
        self.due_ms = self.deadline.ms();
        if let Draining::Told { until_ms } = self.draining {
            self.due_ms = self.due_ms.min(until_ms);
        }
        // A client is not late with what it may not send, or what is not read because it takes no responses.
        let may_send = self.input.is_empty() && !self.session.is_withholding();
        let (of_body, of_rest) =
            if may_send { (Waiting::Body, Waiting::Linger) } else { (Waiting::Nothing, Waiting::Nothing) };
        for stream in self.session.streams_mut().iter_mut() {
            let is_stalled = stream.is_stalled();
            let has_ended = stream.has_ended();
            let state = &mut stream.user;
            let waits_for_window = is_stalled && state.has_data();
            let waiting = match state.exchange.as_ref() {
                // A program may wait for this job.
                Some(exchange) if exchange.upstream().is_some() && exchange.awaits_job() => {
                    Waiting::Completion
                }
                _ if waits_for_window => Waiting::Send,
                Some(exchange) if exchange.awaits_job() => Waiting::Completion,
                Some(Exchange { state: ExchangeState::Upstream(upstream), .. })
                    if upstream.awaits_body() && !has_ended =>
                {
                    of_body
                }
                None if state.is_sent => of_rest,
                _ => Waiting::Nothing,
            };
            state.deadline.wait(waiting, now_ms, settings);
            let waiting_bytes = state.pieces.bytes() as usize;
            let is_paced = state.pace.as_ref().is_some_and(|pace| pace.due_us().is_some());
            if let Some(upstream) = state.upstream_mut() {
                upstream.wait(waiting_bytes, is_paced, self.client.has_ended, cx);
            }
            self.due_ms = self.due_ms.min(state.due_ms());
        }
    }

    /// A deadline may have passed. `unacknowledged` returns how many sent bytes the client has not acknowledged.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl FnOnce() -> u64) {
        let (now_ms, settings) = (cx.now.ms(), &cx.server.settings);
        match self.deadline.expired(now_ms, settings, unacknowledged) {
            // The client still reads its last response.
            None if self.deadline.is_for(Waiting::Flush) => self.idle_from_ms = Some(now_ms),
            None => {}
            Some(Expired::TooSlow) => {
                self.abort(cx);
                self.phase = Phase::CutOff;
                return;
            }
            Some(Expired::Late(Waiting::Linger)) => {
                self.phase = Phase::Closed;
                return;
            }
            Some(Expired::Late(Waiting::Idle)) => {
                let error = ConnectionError { code: ErrorCode::NO_ERROR, reason: "idle" };
                return self.fail(error, cx);
            }
            Some(Expired::Late(Waiting::Head)) => {
                let error = ConnectionError { code: ErrorCode::NO_ERROR, reason: "a frame came too slowly" };
                return self.fail(error, cx);
            }
            Some(Expired::Late(Waiting::Completion)) => return self.abort(cx),
            Some(Expired::Late(_)) => {}
        }
        let streams = self.session.streams().iter();
        let due: Vec<u32> =
            streams.filter(|stream| stream.user.due_ms() <= now_ms).map(|stream| stream.id).collect();
        for id in due {
            self.expire_stream(id, cx);
        }
        self.due_ms = self.deadline.ms();
        for stream in self.session.streams().iter() {
            self.due_ms = self.due_ms.min(stream.user.due_ms());
        }
    }

    fn expire_stream(&mut self, id: u32, cx: &mut Context<'_>) {
        let Some(stream) = self.session.streams_mut().get_mut(id) else { return };
        let state = &mut stream.user;
        match state.upstream_mut().and_then(|upstream| upstream.expired(cx)) {
            None | Some(Awaited::Nothing) => {}
            Some(Awaited::Program) => {
                return self.give_up(id, GatewayError::of_silence(self.client.has_ended), cx);
            }
            Some(Awaited::Either) => {
                return self.give_up(id, GatewayError::with(Status::REQUEST_TIMEOUT), cx);
            }
            Some(Awaited::Client) => {
                cx.tally.counts.add(Count::ProgramsHeld, 1);
                return self.reset(id, ErrorCode::CANCEL, cx);
            }
        }
        let waiting = match state.deadline.expired(cx.now.ms(), &cx.server.settings, || 0) {
            None => return,
            Some(Expired::TooSlow) => return self.reset(id, ErrorCode::CANCEL, cx),
            Some(Expired::Late(waiting)) => waiting,
        };
        match (waiting, state.exchange.as_mut().map(|exchange| &mut exchange.state)) {
            (Waiting::Completion, Some(ExchangeState::Login(login))) => {
                login.is_late();
                self.go_on(id, cx);
            }
            (Waiting::Completion, Some(ExchangeState::Lookup(lookup))) => {
                lookup.state = Lookup::Failed(Failure::TimedOut);
                self.go_on(id, cx);
            }
            (Waiting::Completion, Some(ExchangeState::Upstream(upstream))) => match upstream.job_is_late() {
                Ok(()) => state.send_stored(),
                Err(fault) => self.give_up(id, fault, cx),
            },
            (Waiting::Body, Some(ExchangeState::Upstream(_))) => {
                self.give_up(id, GatewayError::with(Status::REQUEST_TIMEOUT), cx);
            }
            (Waiting::Linger, None) => self.reset(id, ErrorCode::NO_ERROR, cx),
            (Waiting::Completion, _) => self.reset(id, ErrorCode::INTERNAL_ERROR, cx),
            _ => {}
        }
    }
}
