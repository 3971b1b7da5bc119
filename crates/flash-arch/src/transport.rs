//! What carries a connection's bytes between its socket and the request path: the socket alone, or TLS above it.
//!
//! Each driver asks its connection's transport at the same places: for received bytes, for output, before a want, and at the
//! end. Records that a socket did not take come before all else. Meanwhile only a connection that exchanges with an upstream
//! goes on.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use flash_core::file::Content;
use flash_core::output::{Front, Output};
use flash_core::refusal::Refusal;
use flash_core::{Connection, Context};
use flash_observe::metrics::LoopMetrics;
use flash_tls::session::Failure;
use flash_tls::{Endpoints, Event, Session};
use rustix::io::Errno;
use rustix::net::{self, SendFlags};

use crate::blocking_call;
use crate::socket::{self, SLICES_MAX, Sent};

#[derive(Default)]
pub(crate) enum Transport {
    #[default]
    Plain,
    /// Boxed, because connections without encryption are many, too.
    Tls(Box<Tls>),
}

/// TLS above a socket.
pub(crate) struct Tls {
    session: Session,
    endpoints: Arc<Endpoints>,
    /// The socket's sending direction is to be shut when the records have left.
    shuts: bool,
}

/// What became of the records that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    All,
    Blocked,
    Broken,
}

impl Transport {
    /// TLS, if there are endpoints.
    pub(crate) fn new(endpoints: Option<&Arc<Endpoints>>) -> Self {
        endpoints.map_or(Self::Plain, |endpoints| {
            let endpoints = Arc::clone(endpoints);
            Self::Tls(Box::new(Tls { session: Session::default(), endpoints, shuts: false }))
        })
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Gives the connection what its client has sent.
    #[inline]
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        socket: &OwnedFd,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) {
        match self {
            Self::Plain => connection.received(bytes, cx),
            Self::Tls(tls) => tls.received(bytes, socket, connection, cx),
        }
    }

    /// Whether records wait for the socket.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Tls(tls) => !tls.session.outgoing().is_empty(),
        }
    }

    /// Sends the records that wait.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> Flushed {
        match self {
            Self::Plain => Flushed::All,
            Self::Tls(tls) => tls.flush(socket),
        }
    }

    /// Whether the connection has to wait until the socket takes the records. Sends them first, if it can.
    #[inline]
    pub(crate) fn holds_back(
        &mut self,
        socket: &OwnedFd,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> bool {
        if !self.waits() {
            return false;
        }
        match self.flush(socket) {
            Flushed::All => false,
            Flushed::Blocked => !(connection.is_exchanging() || connection.is_over()),
            Flushed::Broken => {
                connection.abort(cx);
                false
            }
        }
    }

    /// Sends the front of the output as records. Returns `None` without TLS.
    #[inline]
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        output: &Output,
        metrics: Option<&LoopMetrics>,
    ) -> Option<Sent> {
        match self {
            Self::Plain => None,
            Self::Tls(tls) => Some(tls.send(socket, output, metrics)),
        }
    }

    /// Sends the front of the output, through a socket that this thread may use itself.
    #[inline]
    pub(crate) fn send_now(
        &mut self,
        socket: &OwnedFd,
        output: &Output,
        metrics: Option<&LoopMetrics>,
    ) -> Sent {
        self.send(socket, output, metrics).unwrap_or_else(|| socket::send(socket, output, metrics))
    }

    /// Ends the sending direction: with a close_notify, when the records have left.
    pub(crate) fn shutdown(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Plain => net::shutdown(socket, net::Shutdown::Write),
            Self::Tls(tls) => {
                tls.session.close();
                tls.shuts = true;
                match tls.flush(socket) {
                    Flushed::All | Flushed::Blocked => Ok(()),
                    Flushed::Broken => Err(Errno::PIPE),
                }
            }
        }
    }

    /// The connection closes. Returns whether it has to wait until the socket takes the last records.
    pub(crate) fn close(&mut self, socket: &OwnedFd, connection: &Connection) -> bool {
        let Self::Tls(tls) = self else { return false };
        tls.session.close();
        tls.flush(socket) == Flushed::Blocked && !connection.is_over()
    }
}

impl Tls {
    fn received(
        &mut self,
        mut bytes: &[u8],
        socket: &OwnedFd,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) {
        if connection.awaits_proxy_header() {
            // It comes before the handshake, in the clear.
            let used = connection.take_proxy_header(bytes, cx);
            bytes = &bytes[used..];
            if bytes.is_empty() || connection.is_over() {
                return;
            }
        }
        let (hosts, endpoints) = (&cx.server.hosts, &self.endpoints);
        let choose = |name: Option<&str>| {
            let site = name.and_then(|name| hosts.find(Some(name.as_bytes())));
            Arc::clone(endpoints.of(site.and_then(|site| site.certificates)))
        };
        let result = self.session.receive(bytes, choose, |event| match event {
            Event::Secured(tls, _, certificate) => connection.secured(tls, certificate, cx),
            Event::Plaintext(bytes) => connection.received(bytes, cx),
            Event::End => connection.received_end(cx),
        });
        if let Err(failure) = result {
            match &failure {
                Failure::NoClientCertificate => {
                    connection.refuse_certificate(Refusal::NoClientCertificate, &"TLS handshake", cx);
                }
                Failure::BadClientCertificate(why) => {
                    connection.refuse_certificate(Refusal::BadClientCertificate, why, cx);
                }
                Failure::PlainHttp | Failure::Tls(_) => {}
            }
            // The alert is for a client that still reads.
            if self.flush(socket) == Flushed::All {
                let _ = net::shutdown(socket, net::Shutdown::Write);
            }
            connection.abort(cx);
        }
    }

    fn flush(&mut self, socket: &OwnedFd) -> Flushed {
        while !self.session.outgoing().is_empty() {
            match send(socket, self.session.outgoing()) {
                Sent::Bytes(count) => self.session.sent(count as usize),
                Sent::Blocked => return Flushed::Blocked,
                Sent::Broken => return Flushed::Broken,
            }
        }
        if std::mem::take(&mut self.shuts) && net::shutdown(socket, net::Shutdown::Write).is_err() {
            return Flushed::Broken;
        }
        Flushed::All
    }

    fn send(&mut self, socket: &OwnedFd, output: &Output, metrics: Option<&LoopMetrics>) -> Sent {
        match self.flush(socket) {
            Flushed::All => {}
            Flushed::Blocked => return Sent::Blocked,
            Flushed::Broken => return Sent::Broken,
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        match output.front(&mut slices) {
            Front::Nothing => Sent::Bytes(0),
            Front::Slices { count, .. } => self.seal(socket, &slices[..count]),
            Front::File(file, range) => {
                let Content::Open(open) = &file.content else { return Sent::Broken };
                let mut bytes =
                    vec![0; self.session.seal_bytes_max().min((range.end - range.start) as usize)];
                // These pages were in memory a moment ago.
                let mut read = || rustix::io::pread(open.as_fd(), &mut bytes[..], range.start);
                let blocking_call = || ("pread", blocking_call::path_of(file));
                let result = match metrics {
                    Some(metrics) => metrics.watch_blocking(read, blocking_call),
                    None => read(),
                };
                match result {
                    Ok(count) if count > 0 => self.seal(socket, &[IoSlice::new(&bytes[..count])]),
                    Err(Errno::INTR) => Sent::Bytes(0),
                    _ => Sent::Broken,
                }
            }
        }
    }

    fn seal(&mut self, socket: &OwnedFd, slices: &[IoSlice<'_>]) -> Sent {
        let sealed = self.session.seal(slices, |records| match send(socket, records) {
            Sent::Bytes(count) => Some(count as usize),
            Sent::Blocked => Some(0),
            Sent::Broken => None,
        });
        sealed.map_or(Sent::Broken, |count| Sent::Bytes(count as u64))
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> Sent {
    loop {
        match net::send(socket.as_fd(), bytes, SendFlags::NOSIGNAL) {
            Ok(count) => return Sent::Bytes(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(_) => return Sent::Broken,
        }
    }
}
