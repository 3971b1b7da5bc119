//! A connection's slot in a loop. In its turn the loop performs its wants until it has to wait. Then the poller
//! learns what to watch.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::upstream::Opened;
use flash_core::{Connection, Context, Interest, Want};
use flash_observe::metrics::LoopMetrics;

use super::deferred::Deferred;
use super::streams::{Chain, Streams};
use crate::completion_queue::{Completion, CompletionQueue};
use crate::connection_permit::ConnectionPermit;
use crate::login_pool::LoginPool;
use crate::poller::{Poller, WakeOn};
use crate::socket::{self, Received, Sent};
use crate::timer_wheel::WheelSlot;
use crate::transport::Transport;
use crate::upstream_io::{UpstreamIo, takes_long};

/// A connection and what the loop knows about its socket.
pub(super) struct Slot<L> {
    pub(super) connection: Connection,
    pub(super) transport: Transport,
    pub(super) socket: OwnedFd,
    pub(super) socket_state: L,
    pub(super) generation: u32,
    pub(super) wheel_slot: WheelSlot,
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

/// What a connection's turn borrows from its loop.
pub(super) struct TurnContext<'a> {
    pub(super) deferred: &'a mut VecDeque<Deferred>,
    pub(super) handshakes: &'a mut VecDeque<u64>,
    pub(super) metrics: &'a LoopMetrics,
    pub(super) upstream_io: &'a mut UpstreamIo,
    pub(super) streams: &'a mut Streams,
    pub(super) completions: &'a Arc<CompletionQueue>,
    pub(super) logins: &'a LoginPool,
}

/// The wants of one connection that are performed in a turn.
const WANTS_PER_TURN: usize = 16;
/// Moving an upstream's bytes counts as this many wants, because it may move a whole buffer.
const WANTS_PER_PIECE: usize = 4;
/// After a want that takes long, what it has made may be sent.
const WANTS_AFTER_LONG: usize = 1;

impl<L> Slot<L> {
    pub(super) fn perform(
        &mut self,
        token: u64,
        cx: &mut Context<'_>,
        turn_cx: TurnContext<'_>,
        poller: &mut impl Poller<SocketState = L>,
    ) -> Turn {
        let mut left = WANTS_PER_TURN;
        while left > 0 {
            left -= 1;
            if self.transport.has_step() && !self.connection.is_over() {
                if self.transport.queue_step() {
                    turn_cx.handshakes.push_back(token);
                }
                return Turn::Waits(WakeOn::Completed);
            }
            if self.transport.holds_back(&self.socket, &mut self.connection, cx) {
                return Turn::Waits(WakeOn::Writable);
            }
            let want = self.connection.want(cx);
            if !cx.tally.released.is_empty() {
                self.release(cx, turn_cx.streams, poller);
            }
            match want {
                Want::Receive => match poller.receive(&mut self.socket_state, &self.socket) {
                    Received::Bytes(count) => {
                        let bytes = poller.received(count);
                        self.transport.received(bytes, &self.socket, &mut self.connection, cx);
                    }
                    Received::Blocked => {
                        if !self.connection.receive_blocked() {
                            return Turn::Waits(WakeOn::Received);
                        }
                    }
                    Received::End => self.connection.received_end(cx),
                    Received::Gone => self.connection.abort(cx),
                },
                Want::Send => {
                    let Some(output) = self.connection.output() else { return Turn::Ends };
                    let sent = match self.transport.send(&self.socket, output, Some(turn_cx.metrics)) {
                        None => {
                            poller.send(&mut self.socket_state, &self.socket, token, output, turn_cx.metrics)
                        }
                        sent => sent,
                    };
                    match sent {
                        None if self.connection.is_exchanging() => {
                            self.connection.send_blocked();
                        }
                        None => return Turn::Waits(WakeOn::Sent),
                        Some(Sent::Bytes(count)) => self.connection.sent(count, cx),
                        Some(Sent::Blocked) => {
                            if !self.connection.send_blocked() {
                                return Turn::Waits(WakeOn::Writable);
                            }
                        }
                        Some(Sent::Broken) => self.connection.abort(cx),
                    }
                }
                Want::Job(id, job) => turn_cx.deferred.push_back(Deferred::Job(token, id, job)),
                Want::CheckLogin(id) => {
                    turn_cx.logins.check(&mut self.connection, id, turn_cx.completions, token, cx);
                }
                Want::OpenUpstream(id) => {
                    let completions = Arc::clone(turn_cx.completions);
                    let reply = Box::new(move |opened: Opened| {
                        completions.push(token, Completion::Opened(id, opened.into()))
                    });
                    let stream = turn_cx.upstream_io.begin(&mut self.connection, id, &self.socket, cx, reply);
                    if let Some(stream) = stream {
                        turn_cx.streams.insert(&mut self.streams, token, id, stream);
                    }
                }
                want @ (Want::SendUpstream(id) | Want::ReceiveUpstream(id) | Want::ShutdownUpstream(id)) => {
                    left = match takes_long(&want, &mut self.connection) {
                        true => left.min(WANTS_AFTER_LONG),
                        false => left.saturating_sub(WANTS_PER_PIECE - 1),
                    };
                    let stream = turn_cx.streams.get(self.streams, id);
                    turn_cx.upstream_io.perform(&want, &mut self.connection, stream, cx);
                }
                Want::WaitIo(mut interest) => {
                    interest.client_out |= self.transport.waits();
                    return Turn::Exchanges(interest);
                }
                Want::WaitJob => return Turn::Waits(WakeOn::Completed),
                Want::ShutdownWrite => {
                    if self.transport.shutdown(&self.socket).is_err() {
                        return Turn::Ends;
                    }
                }
                Want::Detach => {
                    // The socket stays open in another process. This loop needs none of its events.
                    poller.forget(&self.socket, token);
                    return Turn::Ends;
                }
                Want::Close if self.transport.close(&self.socket, &self.connection) => {
                    return Turn::Waits(WakeOn::Writable);
                }
                Want::Close => return Turn::Ends,
                Want::Reset => {
                    socket::reset(&self.socket);
                    return Turn::Ends;
                }
            }
        }
        Turn::Waits(WakeOn::NextTurn)
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
