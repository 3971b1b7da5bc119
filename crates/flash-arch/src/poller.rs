//! The poller: how a loop learns of events, receives and sends.
//!
//! There are two, of [readiness](crate::poller::readiness) and on [io_uring](crate::uring).

pub(crate) mod readiness;
pub(crate) mod registration;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::connection::output::Output;
use flash_observe::metrics::LoopMetrics;

use crate::completion_queue::CompletionQueue;
use crate::connections::listener::Listener;
use crate::connections::socket::{Received, Sent};

pub(crate) trait Poller: Sized + Send + 'static {
    /// What the poller knows about a connection's socket.
    type SocketState: Send;
    /// What an event says about a connection.
    type Readiness;

    /// Makes a poller that watches the completion queue's waker, as an edge, under `token`.
    fn new(completions: &Arc<CompletionQueue>, token: u64) -> io::Result<Self>;

    /// Called once, by the loop's thread.
    fn begin(&mut self) -> io::Result<()>;

    /// The only call that a loop sleeps in. Returns how many events have come.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// The next of the events that had come when the wait ended.
    fn next(&mut self) -> Option<Event<Self::Readiness>>;

    /// Watches a listener until [`Poller::ignore`]. A new connection wakes one of the loops that watch.
    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    /// Watches a listener again, after its connections were accepted.
    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    /// Stops watching at once: no connection that comes later wakes this loop.
    fn ignore(&mut self, listener: &Listener, token: u64);

    /// The state of a socket that has just been accepted.
    fn socket_state() -> Self::SocketState;

    /// Notes an event. Returns whether the connection still has a direction.
    fn note(&mut self, socket_state: &mut Self::SocketState, readiness: Self::Readiness) -> bool;

    fn receive(&mut self, socket_state: &mut Self::SocketState, socket: &OwnedFd) -> Received;

    /// The bytes that the last call of [`Poller::receive`] counted.
    fn received(&self, count: usize) -> &[u8];

    /// Sends the front of the output. Returns `None` if the send has only begun.
    fn send(
        &mut self,
        socket_state: &mut Self::SocketState,
        socket: &OwnedFd,
        token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent>;

    /// Watches for the event that brings a connection's next turn.
    fn settle(
        &mut self,
        socket_state: &mut Self::SocketState,
        socket: &OwnedFd,
        token: u64,
        until: WakeOn,
    ) -> io::Result<()>;

    /// Watches an upstream's stream, under a token of its own, until [`Poller::forget`].
    fn watch(&mut self, stream: &OwnedFd, token: u64, registered: Registered) -> io::Result<()>;

    /// Asks for the next edge of a stream that is watched, where a poller reports each only once.
    fn rearm(&mut self, _stream: &OwnedFd, _token: u64, _bytes: bool, _room: bool) -> io::Result<()> {
        Ok(())
    }

    /// Whether more events of the stream may follow this one.
    fn goes_on(readiness: &Self::Readiness) -> bool;

    /// Ends the watch of a stream.
    fn forget(&mut self, stream: &OwnedFd, token: u64);

    /// Closes a connection's socket.
    fn close(&mut self, socket_state: Self::SocketState, socket: OwnedFd, token: u64);
}

/// An event, and the token that it was registered with.
pub(crate) struct Event<Readiness> {
    pub(crate) token: u64,
    /// Ignored for a listener and for the completion queue, which can only have become readable.
    pub(crate) readiness: Readiness,
}

/// What a connection's next turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeOn {
    Received,
    /// The send that has begun is complete.
    Sent,
    /// The socket has room to send.
    Writable,
    /// Its job is done, or its upstream has opened.
    Completed,
    /// Its client's rate allows more.
    Paced,
    /// Other connections have had their turns.
    NextTurn,
}

/// What a connection's socket or an upstream's stream is registered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    No,
    /// For input. A watch for room to send would report an event at once, which costs a turn.
    Bytes,
    /// For input and room to send, from the first time on that a send blocked.
    Room,
}

const RECEIVE_BYTES: usize = 64 << 10;

/// A buffer to receive into. Its pages are populated: if the kernel had to allocate one, the loop might wait for a
/// thread that maps memory.
pub(crate) fn receive_buffer() -> Box<[u8]> {
    vec![b'-'; RECEIVE_BYTES].into_boxed_slice()
}

/// Tokens are smaller than this, because a poller may need the other bits.
pub(crate) const TOKEN_MAX: u64 = flash_os::ring::TAG_MAX;
