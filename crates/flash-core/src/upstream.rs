//! Programs: what is asked of whoever begins one, and what comes back.
//!
//! To the request path a program is a stream in two directions, whatever begins it and whatever framing it speaks. Here
//! is no process, no queue and no connection that is kept: they are behind [`Upstreams`], in `flash-upstream`. Where programs
//! stand among the site's names is in [`routes`](crate::routes), and how bytes go to and fro in `exchange`.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_cgi::Variables;
use flash_http::status::Status;

use crate::exchange_id::ExchangeId;
use crate::path::SitePath;
use crate::record::RecordBuilder;

/// How a stream's bytes are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// The request's body, and then its end, one way; a head and a body, up to the end, the other.
    Cgi,
    /// The same, but for that the program writes the response as the client is to have it (RFC 3875 §5).
    Nph,
    FastCgi,
}

/// Whoever begins programs.
pub trait Upstreams: Send + Sync + Debug {
    /// Begins one, or sees to it that `reply` is called, once, whatever happens. Never waits.
    fn begin(&self, begin: Open, reply: OnOpened) -> Option<Opened>;
}

/// Takes what became of [`Open`], on any thread. Nobody may be left to have a use for it: then it is dropped.
pub type OnOpened = Box<dyn FnOnce(Opened) + Send>;

/// Open a program.
#[derive(Debug)]
pub struct Open {
    /// The route's number.
    pub route: usize,
    /// What was asked for, decoded. Below a [`RouteMatch::Prefix`] with [`UpstreamProtocol::Cgi`] nobody has looked yet which script that
    /// is: whoever begins it adds the variables that say so. In all other cases they are complete.
    pub path: SitePath<'static>,
    pub variables: Arc<Variables>,
    /// The request, for people who read logs.
    pub name: Arc<str>,
    /// The last attempt ended in a kept connection that the program had closed: this one is to be new.
    pub again: bool,
    pub direct: Option<Box<Direct>>,
}

/// What a program needs to write straight to the client.
#[derive(Debug)]
pub struct Direct {
    /// Sent before the program may write: a status line and fields, but no empty line, which the program writes.
    pub head: Vec<u8>,
    /// The client's socket, non-blocking as yet. The driver adds it.
    pub socket: Option<OwnedFd>,
    /// To be finished with the number of bytes that the client got, when the program has ended.
    pub record: Option<RecordBuilder>,
}

/// What became of it. The stream is the driver's, which tells the exchange the rest, without it.
#[derive(Debug)]
pub enum Opened<Stream = OwnedFd> {
    /// The stream is non-blocking.
    Running(Stream, Upstream),
    /// Straight to the client: the connection is the program's from now on.
    Detached,
    Failed(OpenError),
}

impl Opened {
    /// The stream, for the driver, and what its exchange is told.
    pub fn split(self) -> (Option<OwnedFd>, Opened<()>) {
        match self {
            Self::Running(stream, backend) => (Some(stream), Opened::Running((), backend)),
            Self::Detached => (None, Opened::Detached),
            Self::Failed(refusal) => (None, Opened::Failed(refusal)),
        }
    }
}

/// A program that runs for one request, but for the stream to it.
#[derive(Debug)]
pub struct Upstream {
    pub protocol: UpstreamProtocol,
    pub lease: Box<dyn Lease>,
    /// It has carried other requests: the program may have closed it without our knowing.
    pub used: bool,
}

/// The right to a program, or to a connection to one. Dropping it breaks off: whatever runs for it is ended.
pub trait Lease: Send + Debug {
    /// From now on the program may be told something. Until then nobody may have been left who wants it.
    fn begins(&mut self) {}

    /// What a FastCGI program complains about, in pieces as they come: lines are the lease's affair.
    fn stderr(&mut self, bytes: &[u8]);

    /// The exchange is over. Never waits.
    fn finish(self: Box<Self>, stream: OwnedFd, how: ReleaseMode);
}

/// How an exchange with a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseMode {
    /// As it should, and the stream may carry another one.
    Reusable,
    /// As it should; the stream has had its time.
    Ended,
    /// Nobody has a use for the rest. A FastCGI record is just complete: `ABORT_REQUEST` may be written. A CGI program may
    /// take the stream's end for that of a body, so that it has to be ended first.
    Aborted,
}

/// An exchange that has no use for its stream any more, and what is to become of that.
#[derive(Debug)]
pub struct Release {
    pub exchange: ExchangeId,
    pub(crate) lease: Box<dyn Lease>,
    /// `None` if nobody has to be told but by the stream's end.
    pub(crate) how: Option<ReleaseMode>,
}

impl Release {
    /// No port watches the stream any more.
    pub fn finish(self, stream: Option<OwnedFd>) {
        if let (Some(stream), Some(how)) = (stream, self.how) {
            self.lease.finish(stream, how);
        }
    }
}

/// Why a program was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// As many run and wait as may. Worth trying again: 503.
    Busy,
    /// No program there: 404.
    NotFound,
    /// There is one, which may not be run: 403.
    Forbidden,
    /// It cannot be begun or reached: 502.
    Broken,
    /// It did not begin in time: 504.
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
