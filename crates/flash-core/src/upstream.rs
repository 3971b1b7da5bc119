//! Upstreams: what a driver asks of the component that opens them, and what it answers.
//!
//! To the request path, an upstream is a stream in two directions, whatever opened it. This module has no process, no queue
//! and no idle connection: they are behind [`Upstreams`], in `flash-upstream`. [`routes`](crate::site::routes) says which names
//! upstreams answer. `exchange` moves the bytes.

use std::any::Any;
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_cgi::Variables;
use flash_http::status::Status;

use crate::exchange::id::ExchangeId;
use crate::path::SitePath;
use crate::record::RecordBuilder;
use crate::record::program_times::ProgramTimes;

/// How a stream's bytes are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// Flash sends the request's body and then closes that direction. The program sends a head and a body, and closes.
    Cgi,
    /// The same, but the program writes the response in its final form (RFC 3875 §5).
    Nph,
    FastCgi,
    /// HTTP/1.1, of a server that this one is a proxy of.
    Http,
}

impl UpstreamProtocol {
    /// Whether a program may take the end of its stream for the end of a whole body.
    pub(crate) fn may_mistake_the_end(self) -> bool {
        match self {
            Self::Cgi | Self::Nph => true,
            Self::FastCgi | Self::Http => false,
        }
    }
}

/// Opens upstreams.
pub trait Upstreams: Any + Send + Sync + Debug {
    /// Opens one. Calls `reply` exactly once, unless it returns the result at once. Never blocks.
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened>;
}

/// Takes the result of [`Open`], on any thread. If the exchange is over, the result is dropped.
pub type OnOpened = Box<dyn FnOnce(Opened) + Send>;

/// A request to open an upstream.
#[derive(Debug)]
pub struct Open {
    /// The route's number.
    pub route: usize,
    /// The decoded path of the request. Below a [`Prefix`](crate::site::routes::RouteMatch::Prefix) with
    /// [`UpstreamProtocol::Cgi`], the script is not known yet: the opener finds it, and adds its variables. In all other
    /// cases the variables are complete.
    pub path: SitePath<'static>,
    pub variables: Arc<Variables>,
    /// The request, for the logs.
    pub name: Arc<str>,
    /// The program had closed the idle connection of the last attempt. This attempt needs a new connection.
    pub again: bool,
    /// If an idle connection turns out to be closed, the request can be sent again.
    pub may_be_repeated: bool,
    /// The server whose connection broke before it answered. Another one is asked.
    pub failed: Option<usize>,
    /// Equal requests of a route that hashes go to the same server.
    pub hash: Option<u64>,
    /// The server that the request's session stays with, if it is well.
    pub sticky: Option<usize>,
    pub direct: Option<Box<Direct>>,
    /// What opens it. `None` where the server has no upstreams.
    pub upstreams: Option<Arc<dyn Upstreams>>,
}

impl Open {
    /// The same for another attempt, which writes to no client itself.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { route, again, may_be_repeated, failed, hash, sticky, .. } = *self;
        let (path, variables, name) =
            (self.path.clone(), Arc::clone(&self.variables), Arc::clone(&self.name));
        let (direct, upstreams) = (None, None);
        Self { route, path, variables, name, again, may_be_repeated, failed, hash, sticky, direct, upstreams }
    }
}

/// What a program needs to write straight to the client.
#[derive(Debug)]
pub struct Direct {
    /// Sent before the program may write: a status line and fields. The program writes the empty line.
    pub head: Vec<u8>,
    /// The client's socket, still non-blocking. The driver adds it.
    pub socket: Option<OwnedFd>,
    /// The record is completed with the number of bytes that the client got, when the program has ended.
    pub record: RecordBuilder,
}

/// The result of [`Open`]. The driver keeps the stream, and tells the exchange the rest.
#[derive(Debug)]
pub enum Opened<Stream = OwnedFd> {
    /// The stream is non-blocking.
    Running(Stream, Upstream),
    /// The program writes straight to the client: the connection belongs to the program now.
    Detached,
    Failed(OpenError),
}

impl Opened {
    /// The stream, for the driver, and the rest, for the exchange.
    pub fn split(self) -> (Option<OwnedFd>, Opened<()>) {
        match self {
            Self::Running(stream, backend) => (Some(stream), Opened::Running((), backend)),
            Self::Detached => (None, Opened::Detached),
            Self::Failed(refusal) => (None, Opened::Failed(refusal)),
        }
    }
}

/// A result on its way to its exchange. If the exchange is over by then, dropping the result ends the program.
#[derive(Debug)]
pub struct Arriving(Option<Opened>);

impl From<Opened> for Arriving {
    fn from(opened: Opened) -> Self {
        Self(Some(opened))
    }
}

impl Arriving {
    /// The result, for the exchange that awaits it.
    pub fn take(mut self) -> Option<Opened> {
        self.0.take()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(Opened::Running(stream, Upstream { protocol, lease, .. })) = self.0.take()
            && protocol.may_mistake_the_end()
        {
            lease.finish(stream, ReleaseMode::Aborted);
        }
    }
}

/// A program that runs for one request, without its stream.
#[derive(Debug)]
pub struct Upstream {
    pub protocol: UpstreamProtocol,
    pub lease: Box<dyn Lease>,
    /// The connection has carried other requests, so the program may have closed it already.
    pub used: bool,
    pub tls: Option<Box<dyn UpstreamSession>>,
    /// Which of its route's servers it is.
    pub server: usize,
    /// How long the request waited for a free process, or for a server with room.
    pub queued: Duration,
}

impl Upstream {
    /// The only one of its route, which no request has used.
    pub fn new(protocol: UpstreamProtocol, lease: Box<dyn Lease>) -> Self {
        Self { protocol, lease, used: false, tls: None, server: 0, queued: Duration::ZERO }
    }
}

/// What an upstream has done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFailure {
    /// It has been silent for too long: 504.
    TimedOut,
    /// It has broken off, or said what is no response: 502.
    Broken,
}

/// The right to a program, or to a connection, for one request. If the lease is dropped, its program is ended.
pub trait Lease: Send + Debug {
    /// From now on, Flash writes to the program. Before, the exchange could still be given up.
    fn begins(&mut self) {}

    /// The exchange fails by the upstream's fault.
    fn failed(&mut self, _why: UpstreamFailure) {}

    /// Whether a safe request that this one has not answered may be sent to another.
    fn may_retry(&mut self) -> bool {
        false
    }

    /// A FastCGI program's error output, in the pieces in which it arrives. The lease finds the lines.
    fn stderr(&mut self, bytes: &[u8]);

    /// The session of a connection that can carry another request.
    fn keep(&mut self, _tls: Box<dyn UpstreamSession>) {}

    /// The program has taken this time for the request. What counts it may.
    fn took(&mut self, _times: &ProgramTimes) {}

    /// The exchange is over. Never blocks.
    fn finish(self: Box<Self>, stream: OwnedFd, how: ReleaseMode);
}

/// What begins sessions of TLS with a server.
pub trait UpstreamTls: Send + Sync + Debug {
    fn begin(&self) -> Box<dyn UpstreamSession>;
}

/// A session of TLS with a server, on bytes.
pub trait UpstreamSession: Send + Debug {
    /// Seals bytes for the server. They wait until the handshake is complete.
    fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>);

    fn is_handshaking(&self) -> bool;

    /// Says that nothing more follows.
    fn end(&mut self, sealed: &mut Vec<u8>);

    /// Takes what the server has sent. What it says goes to `plain`, and what the handshake answers to `sealed`. Returns whether the
    /// server has said that nothing more follows.
    ///
    /// # Errors
    /// The server is another one, or its bytes are none of TLS.
    fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>, sealed: &mut Vec<u8>)
    -> Result<bool, &'static str>;
}

/// How an exchange with a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Complete, and the stream can carry another request.
    Reusable,
    /// Complete, but the stream cannot be used again.
    Ended,
    /// Broken off. A FastCGI record is complete at this point, so `ABORT_REQUEST` may be written. A CGI program has to be
    /// ended first, because it may take the stream's end for that of a body.
    Aborted,
}

/// A stream that its exchange no longer needs, and what happens to it.
#[derive(Debug)]
pub struct Release {
    pub exchange: ExchangeId,
    pub(crate) lease: Box<dyn Lease>,
    /// `None` if dropping the stream and the lease is enough.
    pub(crate) how: Option<ReleaseMode>,
}

impl Release {
    /// Finishes the lease. The stream is out of its poller.
    pub fn finish(self, stream: Option<OwnedFd>) {
        if let (Some(stream), Some(how)) = (stream, self.how) {
            self.lease.finish(stream, how);
        }
    }
}

/// Why an upstream was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The limits for running and waiting programs are reached. Worth a retry: 503.
    Busy,
    /// There is no program: 404.
    NotFound,
    /// The program may not be run: 403.
    Forbidden,
    /// The program cannot be started or reached: 502.
    Broken,
    /// The program did not start in time: 504.
    Late,
}

impl OpenError {
    pub fn status(self) -> Status {
        match self {
            Self::Busy => Status::SERVICE_UNAVAILABLE,
            Self::NotFound => Status::NOT_FOUND,
            Self::Forbidden => Status::FORBIDDEN,
            Self::Broken => Status::BAD_GATEWAY,
            Self::Late => Status::GATEWAY_TIMEOUT,
        }
    }
}
