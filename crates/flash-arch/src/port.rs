//! What a loop needs of the kernel: to be told what happens to its sockets, to receive and to send.
//!
//! Two ways of the kernel serve for it, [`epoll`](crate::epoll) and a [ring](crate::uring).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_core::output::Output;
use flash_observe::metrics::LoopMetrics;

use crate::accept::Listener;
use crate::inbox::Inbox;
use crate::socket::{Received, Sent};

pub(crate) trait Port: Sized + Send + 'static {
    /// What the port knows about a connection's socket.
    type Link: Send;
    /// What it may hear about a connection.
    type News;

    /// The inbox's bell is watched, as an edge, under `token`.
    fn new(inbox: &Arc<Inbox>, token: u64) -> io::Result<Self>;

    /// Called once, by the loop's thread.
    fn begin(&mut self) -> io::Result<()>;

    /// The only call that a loop sleeps in. Returns how many events have come.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize>;

    /// The next of the events that had come when the wait ended.
    fn next(&mut self) -> Option<Event<Self::News>>;

    /// Hears of arrivals, which one of the loops that listen is told of, until [`Port::ignore`].
    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    /// Whoever had arrived was let in.
    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()>;

    fn ignore(&mut self, listener: &Listener, token: u64);

    /// The link of a socket that has just been accepted.
    fn link() -> Self::Link;

    /// Notes what the last event was about. Whether anybody is left at the other side.
    fn note(&mut self, link: &mut Self::Link, news: Self::News) -> bool;

    fn receive(&mut self, link: &mut Self::Link, socket: &OwnedFd) -> Received;

    /// The bytes that the last call of [`Port::receive`] counted.
    fn received(&self, count: usize) -> &[u8];

    /// Sends what is in front of the output, or begins to: then there is nothing to say yet.
    fn send(
        &mut self,
        link: &mut Self::Link,
        socket: &OwnedFd,
        token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent>;

    /// A connection's turn is over, and this is what brings its next one.
    fn settle(&mut self, link: &mut Self::Link, socket: &OwnedFd, token: u64, until: Until)
    -> io::Result<()>;

    /// Hears of a program's stream, under a token of its own, until [`Port::forget`].
    fn watch(&mut self, stream: &OwnedFd, token: u64, watched: Watched) -> io::Result<()>;

    /// Whether more may be heard after this.
    fn goes_on(news: &Self::News) -> bool;

    /// Hears no more of a stream.
    fn forget(&mut self, stream: &OwnedFd, token: u64);

    /// The connection is gone.
    fn close(&mut self, link: Self::Link, socket: OwnedFd, token: u64);
}

/// What happened, and to whom, by the token that it was given with.
pub(crate) struct Event<News> {
    pub(crate) token: u64,
    /// Of no interest where it is about a listener or the bell, which can only have become readable.
    pub(crate) news: News,
}

/// What a connection's next turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Received,
    /// What it began to send is sent.
    Sent,
    /// The socket takes bytes again.
    Writable,
    /// Its job is done.
    Completed,
    /// The others have had their turns.
    Others,
}

/// What a program's stream is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
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

/// Tokens are smaller than this: a port may need the other bits.
pub(crate) const TOKEN_MAX: u64 = flash_os::ring::TAG_MAX;
