//! A worker that serves one connection at a time and blocks with it: what *mt* and *mp* share.

use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::local::LocalCache;
use flash_core::record::Peer;
use flash_core::upstream::Opened;
use flash_core::{Connection, ExchangeId, Interest, TransportInfo, Want};
use flash_observe::RateLimit;
use flash_os::allocator::Collected;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::completion_queue::{Completion, CompletionQueue};
use crate::listener::Listener;
use crate::server_state::ServerState;
use crate::socket::{self, Received, Sent};
use crate::upstream_io::{UpstreamIo, tell_opened};
use crate::worker::Worker;

/// How long a call on a socket blocks before the worker looks at deadlines and signals.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(500);
const RECEIVE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Within this time each worker with an idle client looks whether a connection waits for a permit.
const PERMIT_TIMEOUT: Duration = LOOK_UP.saturating_mul(2);

pub(crate) struct Blocking<'a> {
    worker: Worker,
    listener: &'a Listener,
    /// Whether a connection waited to be accepted at the last look.
    client_waited: bool,
    buffer: Box<[u8]>,
    upstream_io: UpstreamIo,
    /// The streams to the upstreams of the connection's exchanges.
    streams: Vec<(ExchangeId, OwnedFd)>,
    /// Gets the upstream that was asked for last. An upstream that opens too late is dropped with its queue.
    completions: Option<Arc<CompletionQueue>>,
    collected: Collected,
}

impl<'a> Blocking<'a> {
    pub(crate) fn new(shared: Arc<ServerState>, listener: &'a Listener) -> Self {
        let upstream_io = UpstreamIo::new(&shared);
        // There are more workers than processors, so caches of their own would take too much memory.
        let worker = Worker::new(shared, LocalCache::new(0));
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Self {
            worker,
            listener,
            client_waited: false,
            buffer,
            upstream_io,
            streams: Vec::new(),
            completions: None,
            collected: Collected::default(),
        }
    }

    /// Accepts and serves until the listener is shut.
    pub(crate) fn run(&mut self) {
        static NO_ROOM: RateLimit = RateLimit::every(Duration::from_secs(5));
        let shared = Arc::clone(&self.worker.shared);
        while !shared.is_draining() {
            // Each of the many workers may wait here for long, so it gives its memory back first.
            if self.collected.is_due(Instant::now()) {
                self.worker.rest();
            }
            match self.listener.accept(SocketFlags::empty()) {
                Ok((socket, peer)) => self.serve_client(&shared, socket, peer),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(Errno::INVAL) => return,
                Err(error) => {
                    shared.metrics.shed.add(1);
                    shared
                        .error_log
                        .log_limited(&NO_ROOM, format_args!("cannot accept a connection: {error}"));
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn serve_client(&mut self, shared: &Arc<ServerState>, socket: OwnedFd, peer: Peer) {
        let permitted = match shared.permit() {
            Some(permit) => Some((socket, permit)),
            None => shared
                .waiting_connection(socket, peer)
                .and_then(|waiting| shared.wait_for_permit(waiting, PERMIT_TIMEOUT)),
        };
        let Some((socket, _permit)) = permitted else { return };
        self.client_waited = false;
        self.worker.clock.read();
        let mut connection =
            Connection::new(TransportInfo::plain(peer), &shared.server.settings, &self.worker.clock.now);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.serve(&mut connection, &socket);
            connection.abort(&mut self.worker.cx());
            self.release();
            self.completions = None;
        }));
        self.streams.clear();
        if let Err(panic) = outcome {
            shared.panicked(&*panic);
        }
        self.worker.report();
        while self.worker.has_unreported() {
            thread::yield_now();
            self.worker.report();
        }
    }

    fn serve(&mut self, connection: &mut Connection, socket: &OwnedFd) {
        for direction in [Timeout::Recv, Timeout::Send] {
            if set_socket_timeout(socket, direction, Some(LOOK_UP)).is_err() {
                return;
            }
        }
        let mut waits = true;
        // What is under way when the time to drain has passed is cut, and recorded as such.
        while !self.worker.shared.has_given_up() {
            if waits == connection.is_exchanging() {
                // If two sockets may become ready, the worker does not block on one of them.
                waits = !waits;
                let restored = match waits {
                    true => set_socket_timeout(socket, Timeout::Send, Some(LOOK_UP)),
                    false => Ok(()),
                };
                if restored.and_then(|()| rustix::io::ioctl_fionbio(socket, !waits)).is_err() {
                    return;
                }
            }
            if connection.deadline_ms() <= self.worker.clock.now.ms() {
                socket::expire(connection, socket, &mut self.worker.cx());
            }
            let want = connection.want(&mut self.worker.cx());
            self.release();
            match want {
                Want::Receive => {
                    let received = socket::receive(socket, &mut self.buffer);
                    self.worker.clock.read();
                    let (worker, buffer) = (&mut self.worker, &self.buffer);
                    match received {
                        Received::Bytes(count) => connection.received(&buffer[..count], &mut worker.cx()),
                        Received::End => connection.received_end(&mut worker.cx()),
                        Received::Blocked => {
                            if !connection.receive_blocked() && self.leaves(connection) {
                                return;
                            }
                        }
                        Received::Gone => connection.abort(&mut worker.cx()),
                    }
                }
                Want::Send => {
                    let Some(output) = connection.output() else { return };
                    let sent = socket::send(socket, output, None);
                    self.worker.clock.read();
                    let cx = &mut self.worker.cx();
                    match sent {
                        Sent::Bytes(count) => connection.sent(count, cx),
                        Sent::Blocked => {
                            connection.send_blocked();
                        }
                        Sent::Broken => connection.abort(cx),
                    }
                    self.worker.report();
                }
                Want::Job(id, job) => {
                    let outcome = self.worker.shared.run(&job);
                    // The time that the disk took does not count as the client's.
                    self.worker.clock.read();
                    connection.completed(id, outcome, &mut self.worker.cx());
                }
                Want::OpenUpstream(id) => {
                    // Without a queue the result could not be delivered.
                    let Ok(completions) = CompletionQueue::new().map(Arc::new) else { return };
                    self.completions = Some(Arc::clone(&completions));
                    let reply =
                        Box::new(move |opened: Opened| completions.push(0, Completion::Opened(id, opened)));
                    let stream = self.upstream_io.begin(connection, id, socket, &mut self.worker.cx(), reply);
                    self.streams.extend(stream.map(|stream| (id, stream)));
                }
                want @ (Want::SendUpstream(id) | Want::ReceiveUpstream(id) | Want::ShutdownUpstream(id)) => {
                    self.worker.clock.read();
                    let stream = self.streams.iter().find(|(of, _)| *of == id).map(|(_, stream)| stream);
                    self.upstream_io.perform(&want, connection, stream, &mut self.worker.cx());
                }
                Want::WaitIo(interest) => self.wait_for_either(interest, connection, socket),
                Want::ShutdownWrite => {
                    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
                        return;
                    }
                }
                Want::Reset => return socket::reset(socket),
                // A job is done at once, so the connection never waits for one.
                Want::WaitJob | Want::Detach | Want::Close => return,
            }
        }
    }

    /// Waits until the client or an upstream is ready.
    fn wait_for_either(&mut self, interest: Interest, connection: &mut Connection, socket: &OwnedFd) {
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
        // Until an upstream has opened, its completion queue is watched in its place.
        let completions = self.completions.clone();
        if let Some(completions) = &completions {
            polled.push(PollFd::new(completions.eventfd(), PollFlags::IN));
        }
        // After an interruption the worker looks at the sockets as usual.
        let _ = poll(&mut polled, Timespec::try_from(LOOK_UP).ok().as_ref());
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
            if let Completion::Opened(id, opened) = completion {
                // A worker opens one upstream at a time.
                self.completions = None;
                let stream = tell_opened(connection, id, opened, &mut self.worker.cx());
                self.streams.extend(stream.map(|stream| (id, stream)));
            }
        }
        if gone {
            connection.abort(&mut self.worker.cx());
        }
    }

    /// Gives the streams of finished exchanges back to their upstreams.
    fn release(&mut self) {
        for release in self.worker.released() {
            let place = self.streams.iter().position(|(id, _)| *id == release.exchange);
            release.finish(place.map(|place| self.streams.swap_remove(place).1));
        }
    }

    /// Whether to close an idle connection, because another client needs this worker or a permit.
    fn leaves(&mut self, connection: &Connection) -> bool {
        let is_idle = connection.idle_since_ms(&self.worker.shared.server.settings).is_some();
        if is_idle && self.worker.shared.permits.are_wanted() {
            return true;
        }
        // A free worker may be about to accept, so only the second look in a row counts.
        let waits = is_idle && self.listener.has_waiting();
        mem::replace(&mut self.client_waited, waits) && waits
    }
}
