//! A worker that serves one connection at a time and blocks with it: what *mt* and *mp* share.
//!
//! A worker waits for its client's next bytes for a moment only. Then it parks the connection, and is free for another one.
//! Where connections come from and where they are parked is the [`Source`]'s business.

use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::job::{Done, Failure};
use flash_core::local::LocalCache;
use flash_core::upstream::Opened;
use flash_core::{Connection, Drain, ExchangeId, Interest, Want};
use flash_observe::RateLimit;
use flash_observe::metrics::Count;
use flash_os::allocator::Collected;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::completion_queue::{Completion, CompletionQueue};
use crate::server_state::ServerState;
use crate::socket::{self, Received, Sent};
use crate::transport::Transport;
use crate::upstream_io::{UpstreamIo, tell_opened};
use crate::worker::Worker;

pub(crate) use self::source::{Arrival, Client, Source};

mod admit;
mod source;

/// How long a call on a socket blocks before the worker looks at deadlines and signals.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(500);
/// How long a worker waits for its client's next bytes before it parks the connection. A client that sends one request after
/// the other keeps its worker, and no request costs a system call more.
const CLIENT_PATIENCE: Duration = Duration::from_millis(20);
const RECEIVE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);

/// What becomes of a connection when its worker leaves it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Close,
    Park,
}

/// Has calls on a socket block as the workers expect it. An event loop may have had it before.
pub(crate) fn set_blocking(socket: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::ioctl_fionbio(socket, false)?;
    socket::set_timeouts(socket, CLIENT_PATIENCE, LOOK_UP)
}

pub(crate) struct Blocking<S> {
    worker: Worker,
    source: S,
    buffer: Box<[u8]>,
    upstream_io: UpstreamIo,
    /// The streams to the upstreams of the connection's exchanges.
    streams: Vec<(ExchangeId, OwnedFd)>,
    /// Gets the upstreams that were asked for. An upstream that opens after the connection's end is dropped with the queue.
    completions: Option<Arc<CompletionQueue>>,
    /// Log-ins of the connection that are being checked.
    logins: usize,
    collected: Collected,
}

/// Whether the connection cannot go to another process: it has the keys of TLS, or the tables of HTTP/2.
fn stays(connection: &Connection, transport: &Transport) -> bool {
    transport.is_tls() || connection.is_http2()
}

impl<S: Source> Blocking<S> {
    pub(crate) fn new(shared: Arc<ServerState>, source: S) -> Self {
        // There are more workers than processors, so caches of their own would take too much memory.
        let worker = Worker::new(shared, LocalCache::new(0));
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Self {
            worker,
            source,
            buffer,
            upstream_io: UpstreamIo::default(),
            streams: Vec::new(),
            completions: None,
            logins: 0,
            collected: Collected::default(),
        }
    }

    /// Serves connections until its source has no more for it.
    pub(crate) fn run(mut self) {
        static NO_ROOM: RateLimit = RateLimit::every(Duration::from_secs(5));
        let shared = Arc::clone(&self.worker.shared);
        loop {
            // Each of the many workers may wait here for long, so it gives its memory back first.
            self.worker.release_configuration();
            if self.collected.is_due(Instant::now()) {
                self.worker.rest();
            }
            match self.source.next() {
                None => break,
                Some(Arrival::New(socket, transport)) => {
                    if let Some(client) = self.admit(&shared, socket, transport) {
                        self.serve_client(&shared, client);
                    }
                }
                Some(Arrival::Parked(client)) => {
                    self.worker.clock.read();
                    self.serve_client(&shared, client);
                }
                Some(Arrival::Failed(error)) => {
                    shared.metrics.add(Count::Shed, 1);
                    shared
                        .error_log
                        .log_limited(&NO_ROOM, format_args!("cannot accept a connection: {error}"));
                    thread::sleep(PAUSE);
                }
            }
        }
        self.worker.rest();
        self.worker.retire();
    }

    fn serve_client(&mut self, shared: &Arc<ServerState>, mut client: Box<Client>) {
        self.source.holds(client.connection.counted_at());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let Client { connection, transport, socket, .. } = &mut *client;
            let after = self.serve(connection, transport, socket);
            if after == After::Close {
                connection.abort(&mut self.worker.cx());
            }
            self.release();
            after
        }));
        // After a panic, too: the next client gets nothing that belonged to this one.
        self.completions = None;
        self.worker.released().for_each(drop);
        self.streams.clear();
        if mem::take(&mut self.logins) > 0 {
            self.source.end_login();
        }
        self.worker.report();
        while self.worker.has_unreported() {
            thread::yield_now();
            self.worker.report();
        }
        match outcome {
            Ok(After::Park) => {
                self.limit_handshakes(&client.transport);
                self.source.park(client);
            }
            Ok(After::Close) => drop(client),
            Err(panic) => {
                drop(client);
                shared.panicked(&*panic);
            }
        }
        self.source.goes_on();
        self.source.holds(None);
    }

    fn serve(&mut self, connection: &mut Connection, transport: &mut Transport, socket: &OwnedFd) -> After {
        let (mut waits, mut has_received, mut counted_at) = (true, false, connection.counted_at());
        // The last wait was for a client that has done nothing.
        let mut was_in_vain = false;
        // What is under way when the time to drain has passed is cut, and recorded as such.
        while !self.worker.shared.has_given_up() {
            self.worker.refresh();
            self.worker.drain = match self.source.is_retired() && stays(connection, transport) {
                // The client is told, and asks again over another connection.
                true if connection.is_between_requests() => Drain::AtOnce,
                true => Drain::AfterNextRequest,
                false => Drain::No,
            };
            if waits == connection.is_exchanging() {
                // If two sockets may become ready, the worker does not block on one of them.
                waits = !waits;
                let restored = match waits {
                    true => set_socket_timeout(socket, Timeout::Send, Some(LOOK_UP)),
                    false => Ok(()),
                };
                if restored.and_then(|()| rustix::io::ioctl_fionbio(socket, !waits)).is_err() {
                    return After::Close;
                }
            }
            match mem::take(&mut was_in_vain) {
                true if self.gives_way(connection, transport, socket) => return After::Close,
                true => {}
                false => self.source.goes_on(),
            }
            if connection.deadline_ms() <= self.worker.clock.now.ms() {
                socket::expire(connection, socket, &mut self.worker.cx());
            }
            if transport.has_step() && !connection.is_over() {
                let patience = connection.deadline_ms().saturating_sub(self.worker.clock.now.ms());
                let (source, worker) = (&self.source, &mut self.worker);
                source.take_step(Duration::from_millis(patience).min(LOOK_UP), &mut || {
                    transport.step(socket, connection, &mut worker.cx());
                });
                self.worker.clock.read();
                continue;
            }
            if transport.holds_back(socket, connection, &mut self.worker.cx()) {
                self.worker.clock.read();
                was_in_vain = true;
                continue;
            }
            let want = connection.want(&mut self.worker.cx());
            self.release();
            match want {
                Want::Receive => {
                    let drain = self.worker.shared.drain_state();
                    let goes_on =
                        self.worker.drain == Drain::No && matches!(drain, Drain::No | Drain::HandsOver);
                    let is_idle = goes_on && connection.is_idle();
                    // Noted first. A reload that comes later waits for this worker, and an earlier one is seen here.
                    self.source.awaits_request(is_idle);
                    let leaves = match drain {
                        Drain::No => self.source.is_retired(),
                        Drain::HandsOver => has_received && !transport.is_tls(),
                        Drain::AfterNextRequest | Drain::AtOnce => false,
                    };
                    if is_idle && leaves {
                        match self.source.parks(connection, transport) {
                            // What the client has sent may be in the socket already. Another one reads it.
                            true => return After::Park,
                            false if drain == Drain::No && stays(connection, transport) => continue,
                            false => {}
                        }
                    }
                    let received = match self.source.may_wait() && !self.is_crowded(transport) {
                        true => socket::receive(socket, &mut self.buffer),
                        false => socket::receive_now(socket, &mut self.buffer),
                    };
                    self.source.awaits_request(false);
                    self.worker.clock.read();
                    // A reload may have ended during the wait.
                    self.worker.refresh();
                    let (worker, buffer) = (&mut self.worker, &self.buffer);
                    match received {
                        Received::Bytes(count) => {
                            has_received = true;
                            transport.received(&buffer[..count], socket, connection, &mut worker.cx());
                            // Behind a proxy its header says which client counts.
                            if connection.counted_at() != counted_at {
                                counted_at = connection.counted_at();
                                self.source.holds(counted_at);
                            }
                        }
                        Received::End => connection.received_end(&mut worker.cx()),
                        Received::Blocked => {
                            was_in_vain = !connection.receive_blocked();
                            if was_in_vain && let Some(after) = self.leave(connection, transport, socket) {
                                return after;
                            }
                        }
                        Received::Gone => connection.abort(&mut worker.cx()),
                    }
                }
                Want::Send => {
                    let Some(output) = connection.output() else { return After::Close };
                    let sent = transport.send_now(socket, output, None);
                    self.worker.clock.read();
                    let cx = &mut self.worker.cx();
                    match sent {
                        Sent::Bytes(count) => connection.sent(count, cx),
                        Sent::Blocked => was_in_vain = !connection.send_blocked(),
                        Sent::Broken => connection.abort(cx),
                    }
                    self.worker.report();
                }
                Want::Job(id, job) => {
                    let outcome = self.source.run(&self.worker.shared, &job);
                    // The time that the disk took does not count as the client's.
                    self.worker.clock.read();
                    connection.completed(id, outcome, &mut self.worker.cx());
                }
                Want::CheckLogin(id) => {
                    let Some(completions) = self.completions() else { return After::Close };
                    self.check_login(connection, id, &completions);
                }
                Want::OpenUpstream(id) => {
                    let Some(completions) = self.completions() else { return After::Close };
                    let reply = Box::new(move |opened: Opened| {
                        completions.push(0, Completion::Opened(id, opened.into()))
                    });
                    let stream = self.upstream_io.begin(connection, id, socket, &mut self.worker.cx(), reply);
                    self.streams.extend(stream.map(|stream| (id, stream)));
                }
                want @ (Want::SendUpstream(id) | Want::ReceiveUpstream(id) | Want::ShutdownUpstream(id)) => {
                    self.worker.clock.read();
                    let stream = self.streams.iter().find(|(of, _)| *of == id).map(|(_, stream)| stream);
                    self.upstream_io.perform(&want, connection, stream, &mut self.worker.cx());
                }
                Want::WaitIo(mut interest) => {
                    interest.client_out |= transport.waits();
                    was_in_vain = !self.wait_for_either(interest, connection, socket);
                }
                Want::ShutdownWrite => {
                    if transport.shutdown(socket).is_err() {
                        return After::Close;
                    }
                }
                Want::Reset => {
                    socket::reset(socket);
                    return After::Close;
                }
                Want::Close if transport.close(socket, connection) => _ = self.worker.clock.read(),
                Want::WaitJob if self.logins > 0 => {
                    let nothing = Interest {
                        client_in: false,
                        client_out: false,
                        upstream_in: false,
                        upstream_out: false,
                    };
                    self.wait_for_either(nothing, connection, socket);
                }
                // A job is done at once, so the connection never waits for one.
                Want::WaitJob | Want::Detach | Want::Close => return After::Close,
            }
        }
        After::Close
    }

    /// Leaves a connection whose client sends nothing, if that is possible. Else waits for the client.
    fn leave(
        &mut self,
        connection: &Connection,
        transport: &mut Transport,
        socket: &OwnedFd,
    ) -> Option<After> {
        let shared = &self.worker.shared;
        // While the server drains, this worker closes the connection itself.
        if shared.drain_state() != Drain::AtOnce && self.source.parks(connection, transport) {
            return Some(After::Park);
        }
        // No other worker is left, and this one could be free.
        let is_free = connection.is_between_requests() && self.worker.drain == Drain::No;
        if !self.source.may_wait() && !self.source.is_retired() && is_free && transport.is_tls() {
            // The client sees that nothing is missing.
            transport.close(socket, connection);
            return Some(After::Close);
        }
        let is_idle = connection.is_idle() && self.worker.drain == Drain::No;
        // A reload that comes later wakes this worker, and waits for it.
        self.source.awaits_request(is_idle);
        let retirement = self.source.retirement().filter(|_| is_idle);
        if is_idle && self.source.is_retired() {
            return None;
        }
        let mut polled = vec![PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP)];
        polled.extend(retirement.as_ref().map(|retirement| PollFd::new(retirement, PollFlags::IN)));
        // If no other worker is left, it may have to give way soon.
        let patience = if self.source.may_wait() { LOOK_UP } else { CLIENT_PATIENCE };
        let _ = poll(&mut polled, Timespec::try_from(patience).ok().as_ref());
        self.worker.clock.read();
        None
    }

    /// Waits until the client or an upstream is ready. Returns whether one is.
    fn wait_for_either(&mut self, interest: Interest, connection: &mut Connection, socket: &OwnedFd) -> bool {
        let flags = |reads: bool, writes: bool| {
            let read = if reads { PollFlags::IN | PollFlags::RDHUP } else { PollFlags::empty() };
            read | if writes { PollFlags::OUT } else { PollFlags::empty() }
        };
        let client = flags(interest.client_in, interest.client_out);
        let mut polled = Vec::with_capacity(3);
        polled.push(PollFd::new(socket, client));
        let mut registered = Vec::with_capacity(self.streams.len());
        for (id, stream) in &self.streams {
            let (bytes, room) = connection.interest_of(*id);
            // If the exchange wants neither, `poll` would report the end of the stream again and again.
            if bytes || room {
                polled.push(PollFd::new(stream, flags(bytes, room)));
                registered.push(*id);
            }
        }
        // Until an upstream has opened, the completion queue is watched in its place.
        let completions = self.completions.clone();
        if let Some(completions) = &completions {
            polled.push(PollFd::new(completions.eventfd(), PollFlags::IN));
        }
        // After an interruption the worker looks at the sockets as usual.
        let has_happened =
            poll(&mut polled, Timespec::try_from(LOOK_UP).ok().as_ref()).is_ok_and(|count| count > 0);
        let happened = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
        let gone = polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let client = happened(0);
        let ready: Vec<bool> = (0..registered.len()).map(|at| happened(at + 1)).collect();
        self.worker.clock.read();
        if client {
            connection.client_ready();
        }
        for (id, _) in registered.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            connection.upstream_ready(id);
        }
        for (_, completion) in completions.iter().flat_map(|completions| completions.drain()) {
            match completion {
                Completion::Opened(id, opened) => {
                    let stream = tell_opened(connection, id, opened, &mut self.worker.cx());
                    self.streams.extend(stream.map(|stream| (id, stream)));
                }
                Completion::Done(id, outcome) => {
                    self.end_login();
                    connection.completed(id, outcome, &mut self.worker.cx());
                }
                Completion::WaitingConnection(_) | Completion::Idle(..) => {}
            }
        }
        if gone {
            connection.abort(&mut self.worker.cx());
        }
        has_happened
    }

    /// Where results come that the worker waits for. `None` if there can be no queue for them.
    fn completions(&mut self) -> Option<Arc<CompletionQueue>> {
        if self.completions.is_none() {
            self.completions = CompletionQueue::new().map(Arc::new).ok();
        }
        self.completions.clone()
    }

    /// Has a log-in checked, unless too many workers wait for one.
    fn check_login(
        &mut self,
        connection: &mut Connection,
        id: ExchangeId,
        completions: &Arc<CompletionQueue>,
    ) {
        let shared = Arc::clone(&self.worker.shared);
        let cx = &mut self.worker.cx();
        if self.logins == 0 && !self.source.begin_login() {
            shared.metrics.add(Count::LoginsRefused, 1);
            drop(connection.check(id));
            return connection.completed(id, Done::Failed(Failure::Overloaded).into(), cx);
        }
        self.logins += 1;
        if !shared.logins.check(connection, id, completions, 0, cx) {
            self.end_login();
        }
    }

    fn end_login(&mut self) {
        self.logins -= 1;
        if self.logins == 0 {
            self.source.end_login();
        }
    }

    /// Gives the streams of finished exchanges back to their upstreams.
    fn release(&mut self) {
        for release in self.worker.released() {
            let place = self.streams.iter().position(|(id, _)| *id == release.exchange);
            release.finish(place.map(|place| self.streams.swap_remove(place).1));
        }
    }
}
