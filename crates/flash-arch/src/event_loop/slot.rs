//! A connection's slot in a loop, and its turn: the loop performs its wants until it has to wait. Then the poller learns
//! what to watch.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::job::Job;
use flash_core::{Connection, Context, ExchangeId, Interest, Want};
use flash_observe::metrics::LoopMetrics;

use super::deferred::Deferred;
use super::streams::{Chain, Streams};
use crate::completion_queue::CompletionQueue;
use crate::connections::permit::ConnectionPermit;
use crate::connections::socket::Sent;
use crate::connections::transport::Transport;
use crate::driver::{Driver, Served, perform};
use crate::login_pool::LoginPool;
use crate::poller::{Poller, WakeOn};
use crate::timer_wheel::WheelSlots;
use crate::upstream_io::{UpstreamIo, takes_long};

/// A connection and what the loop knows about its socket.
pub(super) struct Slot<L> {
    pub(super) connection: Connection,
    pub(super) transport: Transport,
    pub(super) socket: OwnedFd,
    pub(super) socket_state: L,
    pub(super) generation: u32,
    pub(super) wheel_slots: WheelSlots,
    pub(super) streams: Chain,
    /// `None` once the connection has given way to a new one.
    pub(super) permit: Option<ConnectionPermit>,
}

/// How a connection's turn ended.
#[derive(PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for this event, or for the turns of others.
    Waits(WakeOn),
    /// It waits for its client or for an upstream.
    Exchanges(Interest),
    Ends,
}

/// A connection's turn, and what it borrows from its loop.
pub(super) struct SlotTurn<'a, 'c, P: Poller> {
    pub(super) slot: &'a mut Slot<P::SocketState>,
    pub(super) token: u64,
    pub(super) cx: &'a mut Context<'c>,
    pub(super) poller: &'a mut P,
    pub(super) deferred: &'a mut VecDeque<Deferred>,
    pub(super) metrics: &'a LoopMetrics,
    pub(super) upstream_io: &'a mut UpstreamIo,
    pub(super) streams: &'a mut Streams,
    pub(super) completions: &'a Arc<CompletionQueue>,
    pub(super) logins: &'a LoginPool,
    pub(super) wants_left: usize,
}

/// The wants of one connection that are performed in a turn.
pub(super) const WANTS_PER_TURN: usize = 16;
/// Moving an upstream's bytes counts as this many wants, because it may move a whole buffer.
const WANTS_PER_PIECE: usize = 4;
/// After a want that takes long, what it has made may be sent.
const WANTS_AFTER_LONG: usize = 1;

impl<P: Poller> SlotTurn<'_, '_, P> {
    pub(super) fn run(mut self) -> Turn {
        while self.wants_left > 0 {
            self.wants_left -= 1;
            if let Break(turn) = perform(&mut self) {
                return turn;
            }
        }
        Turn::Waits(WakeOn::NextTurn)
    }
}

impl<P: Poller> Driver for SlotTurn<'_, '_, P> {
    type End = Turn;
    const CLOSE: Turn = Turn::Ends;

    #[inline]
    fn lend<R>(&mut self, call: impl FnOnce(Served<'_, '_>) -> R) -> R {
        call(self.slot.served(self.cx))
    }

    #[inline]
    fn receive(&mut self) -> ControlFlow<Turn, bool> {
        let Self { slot, poller, cx, .. } = self;
        let received = poller.receive(&mut slot.socket_state, &slot.socket);
        Continue(slot.served(cx).received(received, |count| poller.received(count)))
    }

    #[inline]
    fn send(&mut self) -> ControlFlow<Turn, Option<Sent>> {
        let Slot { connection, transport, socket, socket_state, .. } = &mut *self.slot;
        let Some(output) = connection.output() else { return Break(Turn::Ends) };
        let sent = transport.send(socket, output, Some(self.metrics));
        Continue(sent.or_else(|| self.poller.send(socket_state, socket, self.token, output, self.metrics)))
    }

    fn job(&mut self, id: ExchangeId, job: Job) -> ControlFlow<Turn> {
        self.deferred.push_back(Deferred::Job(self.token, id, job));
        Continue(())
    }

    fn check_login(&mut self, id: ExchangeId) -> ControlFlow<Turn> {
        self.logins.check(&mut self.slot.connection, id, self.completions, self.token, self.cx);
        Continue(())
    }

    fn upstream(&mut self, id: ExchangeId, want: &Want) -> ControlFlow<Turn> {
        self.wants_left = match want {
            Want::OpenUpstream(_) => self.wants_left,
            _ if takes_long(want, &self.slot.connection) => self.wants_left.min(WANTS_AFTER_LONG),
            _ => self.wants_left.saturating_sub(WANTS_PER_PIECE - 1),
        };
        let stream = self.streams.get(self.slot.streams, id);
        let completions = (self.completions, self.token);
        let opened = self.upstream_io.perform(want, self.slot.served(self.cx), stream, completions);
        if let Some(stream) = opened {
            self.streams.insert(&mut self.slot.streams, self.token, id, stream);
        }
        Continue(())
    }

    fn release(&mut self) {
        self.slot.release(self.cx, self.streams, self.poller);
    }

    fn wait(&mut self, until: WakeOn) -> ControlFlow<Turn> {
        Break(Turn::Waits(until))
    }

    fn wait_io(&mut self, interest: Interest) -> ControlFlow<Turn> {
        Break(Turn::Exchanges(interest))
    }

    fn forget(&mut self) {
        self.poller.forget(&self.slot.socket, self.token);
    }
}

impl<L> Slot<L> {
    #[inline]
    fn served<'a, 'c>(&'a mut self, cx: &'a mut Context<'c>) -> Served<'a, 'c> {
        let Self { connection, transport, socket, .. } = self;
        Served { connection, transport, socket, cx }
    }

    /// Tells the poller which events end the wait for the client or an upstream.
    pub(super) fn settle_exchange(
        &mut self,
        token: u64,
        interest: Interest,
        streams: &mut Streams,
        poller: &mut impl Poller<SocketState = L>,
    ) -> io::Result<()> {
        let client = match interest {
            Interest { client_in: true, client_out: true, .. } => {
                poller.settle(&mut self.socket_state, &self.socket, token, WakeOn::Received)?;
                WakeOn::Writable
            }
            Interest { client_out: true, .. } => WakeOn::Writable,
            Interest { client_in: true, .. } => WakeOn::Received,
            _ => WakeOn::Completed,
        };
        poller.settle(&mut self.socket_state, &self.socket, token, client)?;
        streams.settle(self.streams, &self.connection, poller)
    }

    /// Gives the streams of finished exchanges back to their upstreams.
    pub(super) fn release(
        &mut self,
        cx: &mut Context<'_>,
        streams: &mut Streams,
        poller: &mut impl Poller<SocketState = L>,
    ) {
        for release in cx.tally.released.drain(..) {
            let stream = streams.take(&mut self.streams, release.exchange, poller);
            release.finish(stream);
        }
    }
}
