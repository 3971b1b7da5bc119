//! A loop's acceptor: it accepts from the listeners that all loops share, and pauses when the system has no room.
//!
//! Each listener has a number. After a reload, listeners that stay keep theirs.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::TransportInfo;
use flash_core::record::counters::Count;
use flash_observe::RateLimit;
use flash_os::socket::Waits;
use flash_os::waker::Waker;
use rustix::io::Errno;

use crate::connections::listener::{Listener, Listeners, turn_away};
use crate::connections::permit::{ConnectionPermit, WaitingConnection};
use crate::poller::Poller;
use crate::server_state::ServerState;

/// At most this many connections are accepted in a turn, so that one loop does not take those that other loops have
/// time for.
pub(crate) const ACCEPTS_PER_TURN: usize = 16;
/// How long nothing is accepted when the system has no room for another connection.
const PAUSE_MS: u64 = 100;

pub(crate) struct Acceptor {
    listeners: Arc<Listeners>,
    token: fn(usize) -> u64,
    state: AcceptState,
    /// A spare descriptor. When descriptors run out, it is closed for a moment, so that one connection can be
    /// accepted and get a 503.
    reserve: Option<Waker>,
    /// Until it has left the listeners for good.
    watching: Option<Arc<()>>,
}

/// A connection that was accepted.
pub(crate) enum Arrival {
    Permitted(OwnedFd, TransportInfo, ConnectionPermit),
    /// All connection permits are taken.
    WaitingConnection(WaitingConnection),
    /// The client has left, or was turned away.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptState {
    Open,
    Paused { until_ms: u64 },
    Closed,
}

impl Acceptor {
    /// `token` makes the poller's token from a listener's number.
    pub(crate) fn new(shared: &ServerState, token: fn(usize) -> u64) -> io::Result<Self> {
        let listeners = shared.listeners.load_full();
        let watching = Some(Arc::clone(&shared.acceptors));
        Ok(Self { listeners, token, state: AcceptState::Closed, reserve: Some(reserve()?), watching })
    }

    pub(crate) fn open(&mut self, poller: &mut impl Poller) -> io::Result<()> {
        self.state = AcceptState::Open;
        let mut all = numbered(&self.listeners);
        let watched = all.try_for_each(|(number, listener)| poller.listen(listener, (self.token)(number)));
        drop(all);
        watched.inspect_err(|_| self.leave(poller, AcceptState::Closed))
    }

    /// The listeners that are to be left. Connections may wait there.
    pub(crate) fn removed(&self, shared: &ServerState) -> Vec<usize> {
        let next = shared.listeners.load();
        if Arc::ptr_eq(&next, &self.listeners) {
            return Vec::new();
        }
        let is_left = |number: &usize, listener: &Arc<Listener>| !has(&next, *number, listener);
        numbered(&self.listeners)
            .filter(|(number, listener)| is_left(number, listener))
            .map(|(number, _)| number)
            .collect()
    }

    /// Watches the listeners that are new, and leaves those that are no longer there.
    pub(crate) fn refresh(&mut self, shared: &ServerState, poller: &mut impl Poller, now_ms: u64) {
        let next = shared.listeners.load_full();
        if Arc::ptr_eq(&next, &self.listeners) {
            return;
        }
        let before = std::mem::replace(&mut self.listeners, next);
        if self.state != AcceptState::Open {
            return;
        }
        for (number, listener) in numbered(&before).filter(|(at, of)| !has(&self.listeners, *at, of)) {
            poller.ignore(listener, (self.token)(number));
        }
        let all_watched = numbered(&self.listeners)
            .filter(|(at, of)| !has(&before, *at, of))
            .all(|(number, listener)| poller.listen(listener, (self.token)(number)).is_ok());
        if !all_watched {
            self.leave(poller, AcceptState::Paused { until_ms: now_ms + PAUSE_MS });
        }
    }

    /// Watches nothing any more. Gives the listeners at which a connection may wait: the kernel wakes one poll of a ring for a
    /// connection. If that was this loop's, no loop of a server that shares the listeners knows of it.
    #[must_use]
    pub(crate) fn stop_watching(&mut self, poller: &mut impl Poller) -> Vec<usize> {
        if self.state != AcceptState::Open {
            return Vec::new();
        }
        for (number, listener) in numbered(&self.listeners) {
            poller.ignore(listener, (self.token)(number));
        }
        numbered(&self.listeners).map(|(number, _)| number).collect()
    }

    /// After [`Acceptor::stop_watching`], and the last accepts.
    pub(crate) fn close(&mut self) {
        self.state = AcceptState::Closed;
        self.watching = None;
    }

    /// Watches a listener again, after its connections were accepted, or enough of them for a turn.
    pub(crate) fn listen_again(&mut self, poller: &mut impl Poller, listener: usize, now_ms: u64) {
        if self.state == AcceptState::Open
            && let Some(Some(watched)) = self.listeners.get(listener)
            && poller.listen_again(watched, (self.token)(listener)).is_err()
        {
            self.leave(poller, AcceptState::Paused { until_ms: now_ms + PAUSE_MS });
        }
    }

    fn leave(&mut self, poller: &mut impl Poller, state: AcceptState) {
        if self.state == AcceptState::Open {
            for (number, listener) in numbered(&self.listeners) {
                poller.ignore(listener, (self.token)(number));
            }
        }
        self.state = state;
    }

    /// How long until [`Acceptor::retry`] is due.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        match self.state {
            AcceptState::Paused { until_ms } => Some(until_ms.saturating_sub(now_ms)),
            AcceptState::Open | AcceptState::Closed => None,
        }
    }

    /// Accepts again after a pause.
    pub(crate) fn retry(&mut self, poller: &mut impl Poller, now_ms: u64) {
        if let AcceptState::Paused { until_ms } = self.state
            && now_ms >= until_ms
        {
            if self.reserve.is_none() {
                self.reserve = reserve().ok();
            }
            if self.open(poller).is_err() {
                self.state = AcceptState::Paused { until_ms: now_ms + PAUSE_MS };
            }
        }
    }

    /// Accepts one connection. `None` if no connection waits, or none can be accepted now.
    pub(crate) fn accept(
        &mut self,
        shared: &Arc<ServerState>,
        poller: &mut impl Poller,
        listener: usize,
        now_ms: u64,
    ) -> Option<Arrival> {
        static NO_ROOM: RateLimit = RateLimit::every(Duration::from_secs(5));
        if self.state != AcceptState::Open {
            return None;
        }
        let listener = self.listeners.get(listener)?.as_ref()?;
        match listener.accept_now() {
            Ok((socket, transport)) if !shared.lets_connect(&socket, &transport) => Some(Arrival::Gone),
            Ok((socket, transport)) => Some(match shared.permit() {
                Some(permit) => Arrival::Permitted(socket, transport, permit),
                None => shared
                    .waiting_connection(socket, transport)
                    .map_or(Arrival::Gone, Arrival::WaitingConnection),
            }),
            // The first in the queue has left; there may be others behind it.
            Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => Some(Arrival::Gone),
            Err(Errno::AGAIN) => None,
            Err(Errno::INVAL) => {
                self.leave(poller, AcceptState::Closed);
                None
            }
            Err(error) => {
                shared.error_log.log_limited(&NO_ROOM, format_args!("cannot accept a connection: {error}"));
                shared.metrics.add(Count::Shed, 1);
                if error == Errno::MFILE
                    && self.reserve.take().is_some()
                    && let Ok((socket, _)) = listener.accept(Waits::No)
                {
                    shared.count_refusal(503);
                    turn_away(&socket);
                    drop(socket);
                    self.reserve = reserve().ok();
                    if self.reserve.is_some() {
                        return Some(Arrival::Gone);
                    }
                }
                // The listener is level-triggered, so it would wake the loop for ever.
                self.leave(poller, AcceptState::Paused { until_ms: now_ms + PAUSE_MS });
                None
            }
        }
    }
}

fn numbered(listeners: &Listeners) -> impl Iterator<Item = (usize, &Arc<Listener>)> {
    listeners.iter().enumerate().filter_map(|(number, listener)| Some((number, listener.as_ref()?)))
}

fn has(listeners: &Listeners, number: usize, listener: &Arc<Listener>) -> bool {
    matches!(listeners.get(number), Some(Some(there)) if Arc::ptr_eq(there, listener))
}

/// Any descriptor will do. This needs no file.
fn reserve() -> io::Result<Waker> {
    Waker::new()
}
