//! What carries a connection's bytes between its socket and the request path: the socket alone, or TLS above it.
//!
//! Each driver asks its connection's transport at the same places: for received bytes, for output, before a want, and at the
//! end. Records that a socket did not take come before all else. Meanwhile only a connection that exchanges with an upstream
//! goes on.
//!
//! A step of a handshake costs a processor as much as many small requests. So each driver bounds how many are taken at a time.
//! A loop takes one between two rounds of events. Threads and processes that block take as many as there are processors. Others
//! wait in the order of their arrival.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use flash_core::connection::output::{Front, Output};
use flash_core::file::Content;
use flash_core::record::counters::Count;
use flash_core::record::refusal::Refusal;
use flash_core::{Connection, Context};
use flash_observe::metrics::{Gauge, LoopMetrics, Metrics};
use flash_os::socket::NO_SIGNAL;
use flash_tls::session::{Failure, HandshakeKind, PLAINTEXT_START};
use flash_tls::{Endpoints, Event, Session, names};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net;

use crate::blocking_call;
use crate::connections::socket::{self, SLICES_MAX, Sent};

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
    metrics: Arc<Metrics>,
    /// Counts the connections of the loop whose handshakes wait for their clients.
    unfinished: Arc<Gauge>,
    handshake: Handshake,
    accepted_ms: u64,
    /// The socket's sending direction is to be shut when the records have left.
    shuts: bool,
}

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// The client has sent nothing.
    Unbegun,
    AwaitsClient,
    /// It can take a step. The driver has not learned of it.
    HasStep,
    /// It waits for its turn to take a step.
    Queued,
    Over,
}

impl Handshake {
    fn awaits_client(self) -> bool {
        matches!(self, Self::Unbegun | Self::AwaitsClient)
    }

    /// What counts the handshakes that are as far as this one.
    fn gauge(self, metrics: &Metrics) -> Option<&Gauge> {
        match self {
            Self::Unbegun | Self::AwaitsClient => Some(&metrics.handshakes_unfinished),
            Self::HasStep | Self::Queued => Some(&metrics.handshakes_waiting),
            Self::Over => None,
        }
    }
}

/// What became of the records that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    All,
    Blocked,
    Broken,
}

impl Transport {
    /// TLS, whose handshake one of the endpoints will answer. `metrics` count it, and `unfinished` for the loop.
    pub(crate) fn tls(
        endpoints: &Arc<Endpoints>,
        metrics: &Arc<Metrics>,
        unfinished: &Arc<Gauge>,
        now_ms: u64,
    ) -> Self {
        metrics.handshakes_unfinished.add(1);
        unfinished.add(1);
        Self::Tls(Box::new(Tls {
            session: Session::default(),
            endpoints: Arc::clone(endpoints),
            metrics: Arc::clone(metrics),
            unfinished: Arc::clone(unfinished),
            handshake: Handshake::Unbegun,
            accepted_ms: now_ms,
            shuts: false,
        }))
    }

    /// When the connection was accepted, if its handshake waits for its client.
    pub(crate) fn unfinished_since_ms(&self) -> Option<u64> {
        match self {
            Self::Tls(tls) => tls.handshake.awaits_client().then_some(tls.accepted_ms),
            Self::Plain => None,
        }
    }

    /// How many handshakes of its loop wait for their clients. None does without TLS.
    pub(crate) fn unfinished_in_loop(&self) -> u64 {
        match self {
            Self::Tls(tls) => tls.unfinished.get(),
            Self::Plain => 0,
        }
    }

    /// The connection is closed, because too many have not finished their handshakes.
    pub(crate) fn shed(&mut self) {
        if let Self::Tls(tls) = self {
            tls.metrics.add(Count::HandshakesShed, 1);
            tls.advance(Handshake::Over);
        }
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

    /// Whether the handshake can take a step. Until then nothing more is received.
    #[inline]
    pub(crate) fn has_step(&self) -> bool {
        matches!(self, Self::Tls(tls) if matches!(tls.handshake, Handshake::HasStep | Handshake::Queued))
    }

    /// Notes that the handshake waits for its turn. Returns whether it did not yet.
    pub(crate) fn queue_step(&mut self) -> bool {
        let Self::Tls(tls) = self else { return false };
        let is_new = tls.handshake == Handshake::HasStep;
        if is_new {
            tls.advance(Handshake::Queued);
        }
        is_new
    }

    /// Takes a step of the handshake, if it can.
    pub(crate) fn step(&mut self, socket: &OwnedFd, connection: &mut Connection, cx: &mut Context<'_>) {
        if self.has_step()
            && let Self::Tls(tls) = self
        {
            tls.step(socket, connection, cx);
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
        let (server, endpoints) = (&cx.server, &self.endpoints);
        let choose = |name: Option<&str>, is_challenge: bool| {
            let site = name.and_then(|name| server.hosts.find(Some(name.as_bytes())));
            let own = site.and_then(|site| site.certificates.as_ref()).map(|own| own.present);
            let endpoint = endpoints.of(own.or(server.settings.certificates)?)?;
            match (&server.settings.challenges, name) {
                (Some(challenges), Some(name)) if is_challenge => {
                    let host =
                        names::reversed(name).map_or_else(|| name.into(), |address| address.to_string());
                    endpoint.for_challenge(&host, &challenges.of_host(&host)?)
                }
                _ => Some(endpoint),
            }
        };
        let mut completed = None;
        let result = self.session.receive(bytes, choose, |event| {
            completed = completed.or(event.completed());
            give(event, connection, cx);
        });
        if self.handshake == Handshake::Unbegun {
            self.advance(Handshake::AwaitsClient);
        }
        if self.session.has_step() {
            self.advance(Handshake::HasStep);
        }
        self.complete(completed);
        self.judge(result, socket, connection, cx);
    }

    fn step(&mut self, socket: &OwnedFd, connection: &mut Connection, cx: &mut Context<'_>) {
        self.advance(Handshake::AwaitsClient);
        let mut completed = None;
        let result = self.session.step(|event| {
            completed = completed.or(event.completed());
            give(event, connection, cx);
        });
        self.complete(completed);
        self.judge(result, socket, connection, cx);
    }

    /// Counts the handshake, if it is complete.
    fn complete(&mut self, completed: Option<HandshakeKind>) {
        let Some(kind) = completed else { return };
        self.advance(Handshake::Over);
        let count = match kind {
            HandshakeKind::Resumed => Count::HandshakesResumed,
            HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => Count::HandshakesFull,
        };
        self.metrics.add(count, 1);
    }

    /// Goes on in the handshake. The gauges follow.
    fn advance(&mut self, next: Handshake) {
        if let Some(gauge) = self.handshake.gauge(&self.metrics) {
            gauge.subtract(1);
        }
        if let Some(gauge) = next.gauge(&self.metrics) {
            gauge.add(1);
        }
        match (self.handshake.awaits_client(), next.awaits_client()) {
            (true, false) => self.unfinished.subtract(1),
            (false, true) => self.unfinished.add(1),
            _ => {}
        }
        self.handshake = next;
    }

    /// Ends the connection if its session has failed.
    fn judge(
        &mut self,
        result: Result<(), Failure>,
        socket: &OwnedFd,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) {
        let Err(failure) = result else { return };
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
                let bytes_max = self.session.seal_bytes_max().min((range.end - range.start) as usize);
                let mut bytes = Vec::with_capacity(PLAINTEXT_START + bytes_max);
                bytes.resize(PLAINTEXT_START, 0);
                // These pages were in memory a moment ago.
                let mut read = || rustix::io::pread(open.as_fd(), spare_capacity(&mut bytes), range.start);
                let blocking_call = || ("pread", blocking_call::path_of(file));
                let result = match metrics {
                    Some(metrics) => metrics.watch_blocking(read, blocking_call),
                    None => read(),
                };
                match result {
                    Ok(count) if count > 0 => {
                        let count = count.min(bytes_max);
                        self.seal(socket, &[IoSlice::new(&bytes[PLAINTEXT_START..][..count])])
                    }
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

impl Drop for Tls {
    fn drop(&mut self) {
        if !matches!(self.handshake, Handshake::Unbegun | Handshake::Over) {
            self.metrics.add(Count::HandshakesFailed, 1);
        }
        self.advance(Handshake::Over);
    }
}

/// Tells a connection what its session has brought.
fn give(event: Event<'_>, connection: &mut Connection, cx: &mut Context<'_>) {
    match event {
        Event::Secured(tls, _, certificate) | Event::Early(tls, certificate) => {
            connection.secured(tls, certificate, cx);
        }
        Event::Confirmed(_) => connection.confirmed(),
        Event::Plaintext(bytes) => connection.received(bytes, cx),
        Event::End => connection.received_end(cx),
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> Sent {
    loop {
        match net::send(socket.as_fd(), bytes, NO_SIGNAL) {
            Ok(count) => return Sent::Bytes(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(_) => return Sent::Broken,
        }
    }
}
