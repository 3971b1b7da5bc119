//! What a connection needs next, and what its sockets are waited for. A connection says it, and a driver performs it.

use crate::exchange_id::ExchangeId;
use crate::job::Job;

/// The one thing that a connection needs next.
#[derive(Debug)]
pub enum Want {
    /// More bytes from the client: call `Connection::received` or `Connection::received_end`.
    Receive,
    /// Bytes to the client: show `Connection::output` to the socket and call `Connection::sent`.
    Send,
    /// The only thing that may wait for a disk: call `Connection::completed`.
    Job(ExchangeId, Job),
    /// A program: hand `Connection::begin` to [`Upstreams`](crate::upstream::Upstreams), and call `Connection::begun`.
    OpenUpstream(ExchangeId),
    /// Show `Connection::to_upstream` to the exchange's stream: call `Connection::upstream_sent`, and so on.
    SendUpstream(ExchangeId),
    /// The program's bytes: call `Connection::upstream_received`, `Connection::upstream_ended`, and so on.
    ReceiveUpstream(ExchangeId),
    /// The program is to see the end of what it is told: shut that direction of its stream.
    ShutdownUpstream(ExchangeId),
    /// The client's socket is its program's: forget it, and close it here without a word.
    Detach,
    /// Nothing, until a socket is ready that was found blocked: call `Connection::client_ready` or
    /// `Connection::upstream_ready`.
    WaitIo(Interest),
    /// The result of the job that was handed out.
    WaitJob,
    /// No more sending; the client may still be, and is to be listened to for a moment.
    ShutdownWrite,
    Close,
    /// The client is too slow: close, and have the kernel forget what it still has for it.
    Reset,
}

/// What both sockets are waited for; those directions were all found blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub client_in: bool,
    pub client_out: bool,
    pub upstream_in: bool,
    pub upstream_out: bool,
}

/// A direction of the program's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}
