//! A connection's place in a loop: its turn, in which its wants are performed until it has to wait, and what the port is
//! told to watch for it meanwhile.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::program::Begun;
use flash_core::{Awaited, Connection, Context, Want};
use flash_observe::ledger::Account;

use super::Late;
use crate::exchange::Talker;
use crate::inbox::Inbox;
use crate::port::{Port, Until, Watched};
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
    pub(super) stream: Stream,
    pub(super) seat: Seat,
}

/// What is known of the stream of a connection's program. Each has a number, so that nothing is taken for news of one
/// that was said of another.
pub(super) struct Stream {
    pub(super) watched: Watched,
    pub(super) number: u8,
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
    pub(super) account: &'a Account,
    pub(super) talker: &'a mut Talker,
    pub(super) inbox: &'a Arc<Inbox>,
}

/// Wants that one connection may have performed before it is somebody else's turn.
const WANTS_PER_TURN: usize = 16;
/// Moving a program's bytes counts for so many of them: each time it may be a whole buffer.
const WANTS_PER_PIECE: usize = 4;
/// An index with this bit is that of a connection whose program's stream is meant; which one, the number says.
pub(super) const OF_STREAM: u64 = 1 << 31;
const NUMBER_SHIFT: u32 = 24;

const fn stream_token(token: u64, number: u8) -> u64 {
    token | OF_STREAM | ((number & 0x7f) as u64) << NUMBER_SHIFT
}

/// The token of the connection, and the number of the stream.
pub(super) const fn split_stream(token: u64) -> (u64, u8) {
    (token & !(0xff << NUMBER_SHIFT), (token >> NUMBER_SHIFT) as u8 & 0x7f)
}

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
            match self.connection.want(cx) {
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
                    match port.send(&mut self.link, &self.socket, token, output, shop.account) {
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
                Want::Job(job) => shop.late.push_back(Late::Job(token, job)),
                Want::Begin => {
                    // The last program's stream may have gone in this turn.
                    self.forget_stream(token, port);
                    let inbox = Arc::clone(shop.inbox);
                    let reply = Box::new(move |begun: Begun| inbox.put(token, begun));
                    shop.talker.begin(&mut self.connection, &self.socket, cx, reply);
                }
                want @ (Want::SendBackend | Want::ReceiveBackend | Want::ShutdownBackend) => {
                    left = left.saturating_sub(WANTS_PER_PIECE - 1);
                    shop.talker.perform(&want, &mut self.connection, cx);
                }
                Want::Release => {
                    self.forget_stream(token, port);
                    if let Some(release) = self.connection.release(cx) {
                        release.finish();
                    }
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
                    port.forget(Some(&self.socket), token);
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
        let needed = if awaited.backend_out { Watched::Room } else { Watched::Bytes };
        let enough = self.stream.watched == Watched::Room || self.stream.watched == needed;
        if enough || self.connection.backend().is_none() {
            return Ok(());
        }
        self.forget_stream(token, port);
        let Some(stream) = self.connection.backend() else { return Ok(()) };
        port.watch(stream, stream_token(token, self.stream.number), needed)?;
        self.stream.watched = needed;
        Ok(())
    }

    /// Hears no more of its program's stream, if it did.
    pub(super) fn forget_stream(&mut self, token: u64, port: &mut impl Port<Link = L>) {
        if self.stream.watched != Watched::No {
            port.forget(self.connection.backend(), stream_token(token, self.stream.number));
            self.stream = Stream { watched: Watched::No, number: (self.stream.number + 1) & 0x7f };
        }
    }
}
