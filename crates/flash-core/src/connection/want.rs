//! What a connection needs next, and which sockets it waits for. A driver performs it.

use crate::exchange::id::ExchangeId;
use crate::job::Job;

/// The one thing that a connection needs next.
#[derive(Debug)]
pub enum Want {
    /// More bytes from the client: call `Connection::received` or `Connection::received_end`.
    Receive,
    /// Bytes to the client: show `Connection::output` to the socket and call `Connection::sent`.
    Send,
    /// A job, the only thing that may wait for a disk: call `Connection::completed`.
    Job(ExchangeId, Job),
    /// The check of a log-in, which must not block the driver: take it from `Connection::check`, and call `Connection::completed`.
    CheckLogin(ExchangeId),
    /// An upstream: pass `Connection::begin` to [`Upstreams`](crate::upstream::Upstreams), and call `Connection::begun`.
    OpenUpstream(ExchangeId),
    /// Bytes to the upstream: show `Connection::to_upstream` to its stream, and call `Connection::upstream_sent`.
    SendUpstream(ExchangeId),
    /// Bytes from the upstream: call `Connection::upstream_received` or `Connection::upstream_ended`.
    ReceiveUpstream(ExchangeId),
    /// Shut down the sending direction of the upstream's stream: call `Connection::upstream_shut`.
    ShutdownUpstream(ExchangeId),
    /// The client's socket belongs to a program now: close it here, and send nothing.
    Detach,
    /// Wait until a socket is ready: call `Connection::client_ready` or `Connection::upstream_ready`.
    WaitIo(Interest),
    /// Wait until [`Connection::paced_until_ms`](crate::Connection::paced_until_ms): the client has had what its rate allows.
    Pause,
    /// Wait for the result of the job that was handed out.
    WaitJob,
    /// Shut down the sending direction. The client may still send for a moment.
    ShutdownWrite,
    Close,
    /// The client is too slow: close, so that the kernel drops what it holds for the client.
    Reset,
}

/// The directions that a connection waits for. All of them would block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub client_in: bool,
    pub client_out: bool,
    pub upstream_in: bool,
    pub upstream_out: bool,
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}
