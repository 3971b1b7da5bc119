//! A connection's place in a loop: its turn, in which its wants are performed until it has to wait, and what the port is
//! told to watch for it meanwhile.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::program::Begun;
use flash_core::{Awaited, Connection, Context, Want};
use flash_observe::metrics::LoopMetrics;

use super::Late;
use super::streams::{Chain, Streams};
use crate::exchange::Talker;
use crate::inbox::{Inbox, Letter};
use crate::port::{Port, Until};
use crate::seat::Seat;
use crate::socket::{self, Received, Sent};
use crate::timers::Standing;

/// A connection and what the loop knows about its socket.
pub(super) struct Slot<L> {
    pub(super) connection: Connection,
    pub(super) socket: OwnedFd,
    pub(super) link: L,
    pub(super) generation: u32,
    pub(super) standing: Standing,
    pub(super) streams: Chain,
    pub(super) seat: Seat,
}

/// What is left of a connection after it had its turn.
#[derive(PartialEq, Eq)]
pub(super) enum Turn {
    /// For others among its reasons: it could go on, but they are waiting.
    Waits(Until),
    /// For one of two sockets.
    Exchanges(Awaited),
    Ends,
}

/// What a connection's turn takes from its loop.
pub(super) struct Shop<'a> {
    pub(super) late: &'a mut VecDeque<Late>,
    pub(super) metrics: &'a LoopMetrics,
    pub(super) talker: &'a mut Talker,
    pub(super) streams: &'a mut Streams,
    pub(super) inbox: &'a Arc<Inbox>,
}

/// Wants that one connection may have performed before it is somebody else's turn.
const WANTS_PER_TURN: usize = 16;
/// Moving a program's bytes counts for so many of them: each time it may be a whole buffer.
const WANTS_PER_PIECE: usize = 4;

impl<L> Slot<L> {
    pub(super) fn perform(
        &mut self,
        token: u64,
        cx: &mut Context<'_>,
        shop: Shop<'_>,
        port: &mut impl Port<Link = L>,
    ) -> Turn {
        let mut left = WANTS_PER_TURN;
        while left > 0 {
            left -= 1;
            let want = self.connection.want(cx);
            if !cx.tally.released.is_empty() {
                self.release(cx, shop.streams, port);
            }
            match want {
                Want::Receive => match port.receive(&mut self.link, &self.socket) {
                    Received::Bytes(count) => self.connection.received(port.received(count), cx),
                    Received::Blocked => {
                        if !self.connection.receive_blocked() {
                            return Turn::Waits(Until::Received);
                        }
                    }
                    Received::End => self.connection.received_end(cx),
                    Received::Gone => self.connection.abort(cx),
                },
                Want::Send => {
                    let Some(output) = self.connection.output() else { return Turn::Ends };
                    match port.send(&mut self.link, &self.socket, token, output, shop.metrics) {
                        None if self.connection.is_exchanging() => {
                            self.connection.send_blocked();
                        }
                        None => return Turn::Waits(Until::Sent),
                        Some(Sent::Bytes(count)) => self.connection.sent(count, cx),
                        Some(Sent::Blocked) => {
                            if !self.connection.send_blocked() {
                                return Turn::Waits(Until::Writable);
                            }
                        }
                        Some(Sent::Broken) => self.connection.abort(cx),
                    }
                }
                Want::Job(id, job) => shop.late.push_back(Late::Job(token, id, job)),
                Want::Begin(id) => {
                    let inbox = Arc::clone(shop.inbox);
                    let reply = Box::new(move |begun: Begun| inbox.put(token, Letter::Begun(id, begun)));
                    let stream = shop.talker.begin(&mut self.connection, id, &self.socket, cx, reply);
                    if let Some(stream) = stream {
                        shop.streams.insert(&mut self.streams, token, id, stream);
                    }
                }
                want @ (Want::SendBackend(id) | Want::ReceiveBackend(id) | Want::ShutdownBackend(id)) => {
                    left = left.saturating_sub(WANTS_PER_PIECE - 1);
                    let stream = shop.streams.get(self.streams, id);
                    shop.talker.perform(&want, &mut self.connection, stream, cx);
                }
                Want::Exchange(awaited) => return Turn::Exchanges(awaited),
                Want::Completion => return Turn::Waits(Until::Completed),
                Want::ShutdownWrite => {
                    if rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).is_err() {
                        return Turn::Ends;
                    }
                }
                Want::HandOver => {
                    // It stays open elsewhere, and nothing that happens to it is of interest here.
                    port.forget(&self.socket, token);
                    return Turn::Ends;
                }
                Want::Close => return Turn::Ends,
                Want::Reset => {
                    socket::reset(&self.socket);
                    return Turn::Ends;
                }
            }
        }
        Turn::Waits(Until::Others)
    }

    /// Sees to it that whatever ends the wait for one of two sockets is heard of.
    pub(super) fn settle_exchange(
        &mut self,
        token: u64,
        awaited: Awaited,
        streams: &mut Streams,
        port: &mut impl Port<Link = L>,
    ) -> io::Result<()> {
        let client = match awaited {
            Awaited { client_in: true, client_out: true, .. } => {
                port.settle(&mut self.link, &self.socket, token, Until::Received)?;
                Until::Writable
            }
            Awaited { client_out: true, .. } => Until::Writable,
            Awaited { client_in: true, .. } => Until::Received,
            _ => Until::Completed,
        };
        port.settle(&mut self.link, &self.socket, token, client)?;
        streams.settle(self.streams, &self.connection, port)
    }

    /// Streams of exchanges that are over go back to whoever lent them.
    pub(super) fn release(
        &mut self,
        cx: &mut Context<'_>,
        streams: &mut Streams,
        port: &mut impl Port<Link = L>,
    ) {
        for release in cx.tally.released.drain(..) {
            let stream = streams.take(&mut self.streams, release.exchange, port);
            release.finish(stream);
        }
    }
}
