//! What a loop needs of the kernel: to be told what happens to its sockets, to receive and to send.
//!
//! Two ways of the kernel serve for it, [`epoll`](crate::epoll) and a [ring](crate::uring).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::output::Output;
use flash_observe::metrics::LoopMetrics;

use crate::completion_queue::CompletionQueue;
use crate::listener::Listener;
use crate::socket::{Received, Sent};

pub(crate) trait Poller: Sized + Send + 'static {
    /// What the poller knows about a connection's socket.
    type SocketState: Send;
    /// What it may hear about a connection.
    type Readiness;

    /// The completion queue's eventfd is watched, as an edge, under `token`.
    fn new(completions: &Arc<CompletionQueue>, token: u64) -> io::Result<Self>;

    /// Called once, by the loop's thread.
    fn begin(&mut self) -> io::Result<()>;

    /// The only call that a loop sleeps in. Returns how many events have come.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// The next of the events that had come when the wait ended.
    fn next(&mut self) -> Option<Event<Self::Readiness>>;

    /// Hears of arrivals, which one of the loops that listen is told of, until [`Poller::ignore`].
    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    /// Whoever had arrived was let in.
    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    fn ignore(&mut self, listener: &Listener, token: u64);

    /// The state of a socket that has just been accepted.
    fn socket_state() -> Self::SocketState;

    /// Notes what the last event was about. Whether anybody is left at the other side.
    fn note(&mut self, socket_state: &mut Self::SocketState, readiness: Self::Readiness) -> bool;

    fn receive(&mut self, socket_state: &mut Self::SocketState, socket: &OwnedFd) -> Received;

    /// The bytes that the last call of [`Poller::receive`] counted.
    fn received(&self, count: usize) -> &[u8];

    /// Sends what is in front of the output, or begins to: then there is nothing to say yet.
    fn send(
        &mut self,
        socket_state: &mut Self::SocketState,
        socket: &OwnedFd,
        token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent>;

    /// A connection's turn is over, and this is what brings its next one.
    fn settle(
        &mut self,
        socket_state: &mut Self::SocketState,
        socket: &OwnedFd,
        token: u64,
        until: WakeOn,
    ) -> io::Result<()>;

    /// Hears of a program's stream, under a token of its own, until [`Poller::forget`].
    fn watch(&mut self, stream: &OwnedFd, token: u64, registered: Registered) -> io::Result<()>;

    /// Whether more may be heard after this.
    fn goes_on(readiness: &Self::Readiness) -> bool;

    /// Hears no more of a stream.
    fn forget(&mut self, stream: &OwnedFd, token: u64);

    /// The connection is gone.
    fn close(&mut self, socket_state: Self::SocketState, socket: OwnedFd, token: u64);
}

/// What happened, and to whom, by the token that it was given with.
pub(crate) struct Event<Readiness> {
    pub(crate) token: u64,
    /// Of no interest where it is about a listener or the completion queue, which can only have become readable.
    pub(crate) readiness: Readiness,
}

/// What a connection's next turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeOn {
    Received,
    /// What it began to send is sent.
    Sent,
    /// The socket takes bytes again.
    Writable,
    /// Its job is done.
    Completed,
    /// The others have had their turns.
    NextTurn,
}

/// What a program's stream is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    No,
    /// For bytes.
    Bytes,
    /// And for room, from the first time on that there was none.
    Room,
}

const RECEIVE_BYTES: usize = 64 << 10;

/// Room for what comes. Its pages are there already: where the kernel had to fetch one, the loop might wait for another
/// thread that maps memory.
pub(crate) fn receive_buffer() -> Box<[u8]> {
    vec![b'-'; RECEIVE_BYTES].into_boxed_slice()
}

/// Tokens are smaller than this: a poller may need the other bits.
pub(crate) const TOKEN_MAX: u64 = flash_os::ring::TAG_MAX;
