//! When a connection's time is over: what its deadline ends, and which connections may be closed before it.

use flash_http::head::Reject;
use flash_http::status::Status;

use super::persistence::Persistence;
use super::state::{Http1, Phase, Why};
use crate::clients::deadline::{Expired, Waiting};
use crate::connection::context::Context;
use crate::connection::evictable::Evictable;
use crate::exchange::ExchangeState;
use crate::exchange::lookup::Lookup;
use crate::exchange::upstream::{Awaited, GatewayError, UpstreamExchange};
use crate::job::Failure;
use crate::record::counters::Count;
use crate::server::Settings;

impl Http1 {
    /// When [`Http1::expire`] is due, in the server's milliseconds.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.upstream().map_or(u64::MAX, UpstreamExchange::deadline_ms).min(self.deadline.ms())
    }

    /// When the client may get more, if its rate is what the response waits for.
    pub(crate) fn paced_until_us(&self) -> Option<u64> {
        self.pace.as_ref()?.due_us()
    }

    /// Whether a request has been answered, and the next one has not begun. A new client's first head is due.
    pub(crate) fn is_between_requests(&self) -> bool {
        self.is_idle() && !self.deadline.is_for(Waiting::Head)
    }

    /// Whether the connection may be closed for a new one, and how early.
    pub(crate) fn evictable(
        &self,
        now_ms: u64,
        settings: &Settings,
        unacknowledged: impl FnOnce() -> u64,
    ) -> Option<Evictable> {
        let is_reading = matches!(self.phase, Phase::ReadRequest) && self.output.is_none();
        // Its answer has been sent.
        let is_lingering = matches!(self.phase, Phase::Lingering { .. });
        let silent_since_ms = || self.deadline.silent_since_ms(settings);
        match () {
            () if is_reading && self.deadline.is_for(Waiting::Head) => {
                Some(Evictable::Unfinished(silent_since_ms()))
            }
            () if self.is_idle() || is_lingering => Some(Evictable::Idle(silent_since_ms())),
            () => self.deadline.behind(now_ms, settings, unacknowledged),
        }
    }

    /// The deadline has passed. `unacknowledged` returns how many sent bytes the client has not acknowledged. It is called
    /// only if the number matters.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl FnOnce() -> u64) {
        match self.upstream().and_then(|upstream| upstream.expired(cx)) {
            None | Some(Awaited::Nothing) => {}
            Some(Awaited::Program) => return self.program_is_late(cx),
            Some(Awaited::Either) => return self.give_up(GatewayError::with(Status::REQUEST_TIMEOUT), cx),
            Some(Awaited::Client) => {
                cx.tally.counts.add(Count::ProgramsHeld, 1);
                return self.cut_off(cx);
            }
        }
        let (now_ms, settings) = (cx.now.ms(), &cx.server.settings);
        let waiting = match self.deadline.expired(now_ms, settings, unacknowledged) {
            // Whoever still reads has its credit, and whoever only sends has had its time.
            None => match self.phase {
                Phase::Lingering { linger, why: Why::Unread } if linger.is_over(now_ms) => Waiting::Linger,
                _ => return,
            },
            Some(Expired::Late(waiting)) => waiting,
            Some(Expired::TooSlow) => return self.cut_off(cx),
        };
        match waiting {
            Waiting::Idle | Waiting::LastRequest | Waiting::Linger => self.phase = Phase::Closed,
            Waiting::Head | Waiting::Body if self.is_idle() => self.phase = Phase::Closed,
            Waiting::Body if self.is_exchanging_with_upstream() => {
                self.give_up(GatewayError::with(Status::REQUEST_TIMEOUT), cx);
            }
            Waiting::Head | Waiting::Body => {
                let (bytes, reason) = match &mut self.phase {
                    Phase::DropBody(body) => (body.take_head(), "the body came too slowly"),
                    _ => (std::mem::take(&mut self.input).into(), "the head came too slowly"),
                };
                self.refuse(Reject { status: Status::REQUEST_TIMEOUT, reason }, &bytes, cx);
            }
            Waiting::Completion => match &mut self.phase {
                Phase::Exchange(current) => match &mut current.exchange.state {
                    ExchangeState::Login(login) => {
                        login.is_late();
                        self.resume(cx);
                    }
                    ExchangeState::Lookup(lookup) => {
                        lookup.state = Lookup::Failed(Failure::TimedOut);
                        self.resume(cx);
                    }
                    ExchangeState::Upstream(_) => self.spool_is_late(cx),
                    ExchangeState::Body(_) => self.abort(cx),
                },
                _ => self.abort(cx),
            },
            Waiting::Nothing | Waiting::Flush | Waiting::Send => {}
        }
    }

    /// The client is too slow.
    fn cut_off(&mut self, cx: &mut Context<'_>) {
        self.abort(cx);
        self.phase = Phase::CutOff;
    }

    /// A job about what is stored has taken too long.
    fn spool_is_late(&mut self, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        // The job may still end. Its result must not be taken for one of the next request.
        current.framing.persistence = Persistence::Closes;
        let Some(upstream) = current.exchange.upstream_mut() else { return };
        match upstream.job_is_late() {
            Ok(()) => self.send_stored(&[], cx),
            Err(fault) => self.give_up(fault, cx),
        }
    }

    /// The upstream has taken too long.
    fn program_is_late(&mut self, cx: &mut Context<'_>) {
        let Phase::Exchange(current) = &mut self.phase else { return };
        if current.exchange.upstream().is_some_and(UpstreamExchange::is_opening) {
            // The program may still start. It must not be taken for the next request's program.
            current.framing.persistence = Persistence::Closes;
        }
        let fault = GatewayError::of_silence(current.client.has_ended);
        self.give_up(fault, cx);
    }
}
