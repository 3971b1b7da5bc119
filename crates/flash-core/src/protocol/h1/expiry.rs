//! When a connection's time is over: what its deadline ends, which connections may be closed before it, and how one is
//! broken off.

use flash_http::head::Reject;
use flash_http::status::Status;

use super::{Http1, Phase, Why};
use crate::context::Context;
use crate::deadline::{Expired, Waiting};
use crate::exchange::ExchangeState;
use crate::exchange::lookup::Lookup;
use crate::job::Failure;
use crate::record::Peer;
use crate::site::Site;

impl Http1 {
    /// When [`Http1::expire`] is due, in the server's milliseconds.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline.ms()
    }

    /// Whether nothing at all is under way.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::ReadRequest) && self.input.is_empty() && self.output.is_none()
    }

    /// Since when, in the server's milliseconds, a connection has been idle that could be closed without harm. What the
    /// kernel still has for its client is delivered all the same.
    pub(crate) fn idle_since_ms(&self, site: &Site) -> Option<u64> {
        let is_flushing = matches!(self.phase, Phase::Lingering { why: Why::Unflushed, .. });
        (self.is_idle() || is_flushing).then(|| self.deadline.silent_since_ms(&site.settings))
    }

    /// The deadline has passed. `unacknowledged` tells how many bytes the client's socket has taken that the client has not
    /// acknowledged; it is asked only where that matters.
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>, unacknowledged: impl FnOnce() -> u64) {
        // What has left for a client on the same machine is with that client.
        let is_local = matches!(self.transport.peer, Peer::Unix);
        let unacknowledged = || if is_local { 0 } else { unacknowledged() };
        let (now_ms, settings) = (cx.now.ms(), &cx.site.settings);
        let waiting = match self.deadline.expired(now_ms, settings, unacknowledged) {
            None => return,
            Some(Expired::Late(waiting)) => waiting,
            Some(Expired::TooSlow) => {
                self.abort(cx);
                self.phase = Phase::CutOff;
                return;
            }
        };
        match waiting {
            Waiting::Idle | Waiting::Linger => self.phase = Phase::Closed,
            Waiting::Head | Waiting::Body if self.is_idle() => self.phase = Phase::Closed,
            Waiting::Program | Waiting::Body if self.is_exchanging_with_upstream() => {
                self.exchange_is_late(cx);
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
                    ExchangeState::Lookup(lookup) => {
                        lookup.state = Lookup::Failed(Failure::TimedOut);
                        self.resume(cx);
                    }
                    ExchangeState::Upstream(_) => self.body_is_late(cx),
                    ExchangeState::Body(_) => self.abort(cx),
                },
                _ => self.abort(cx),
            },
            Waiting::Nothing | Waiting::Program | Waiting::Flush | Waiting::Send => {}
        }
    }

    /// Ends the connection where it stands, for whatever reason, and records what was under way.
    pub(crate) fn abort(&mut self, cx: &mut Context<'_>) {
        let record = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Exchange(current) => {
                if let ExchangeState::Upstream(upstream) = current.exchange.state {
                    cx.tally.released.extend(upstream.break_off().1);
                }
                current.exchange.record
            }
            _ => None,
        };
        if let Some(mut output) = self.output.take() {
            output.abandon(cx.now.us, &mut cx.tally.records);
            if let Some(unfinished) = record {
                cx.tally.records.push(unfinished.finish(output.response_bytes_sent(), cx.now.us));
            }
            cx.buffers.give_back_output(output);
        }
        self.input = Vec::new();
    }
}
