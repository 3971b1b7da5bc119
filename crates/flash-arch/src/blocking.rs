//! A runner that serves one connection at a time and waits with it: what *mt* and *mp* share.

use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::local::LocalCache;
use flash_core::program::Begun;
use flash_core::record::Peer;
use flash_core::{Awaited, Connection, ExchangeId, TransportInfo, Want};
use flash_observe::RateLimit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::accept::Listener;
use crate::exchange::{Talker, tell_begun};
use crate::inbox::{Inbox, Letter};
use crate::runner::Runner;
use crate::shared::Shared;
use crate::socket::{self, Received, Sent};

/// How long a call on a socket waits before the runner looks at deadlines and signals.
const LOOK_UP: Duration = Duration::from_millis(500);
const RECEIVE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);
/// In this time every runner with an idle client has looked whether it should leave it.
const SEAT_PATIENCE: Duration = LOOK_UP.saturating_mul(2);

pub(crate) struct Blocking<'a> {
    runner: Runner,
    listener: &'a Listener,
    /// At the last look a connection waited to be accepted.
    visitor_waited: bool,
    buffer: Box<[u8]>,
    talker: Talker,
    /// Those to the programs of the connection's exchanges.
    streams: Vec<(ExchangeId, OwnedFd)>,
    /// Here comes the program that was asked for last. One that comes when nobody waits any more goes with its inbox.
    inbox: Option<Arc<Inbox>>,
}

impl<'a> Blocking<'a> {
    pub(crate) fn new(shared: Arc<Shared>, listener: &'a Listener) -> Self {
        let talker = Talker::new(&shared);
        // There are more of these runners than processors: what each kept for itself would be too much in all.
        let runner = Runner::new(shared, LocalCache::new(0));
        let buffer = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Self { runner, listener, visitor_waited: false, buffer, talker, streams: Vec::new(), inbox: None }
    }

    /// Accepts and serves until the listener is shut.
    pub(crate) fn run(&mut self) {
        static NO_ROOM: RateLimit = RateLimit::every(Duration::from_secs(5));
        let shared = Arc::clone(&self.runner.shared);
        while !shared.is_draining() {
            match self.listener.accept(SocketFlags::empty()) {
                Ok((socket, peer)) => self.welcome(&shared, socket, peer),
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

    fn welcome(&mut self, shared: &Arc<Shared>, socket: OwnedFd, peer: Peer) {
        let (socket, _seat) = match shared.seat() {
            Some(seat) => (socket, seat),
            None => {
                let Some(visitor) = shared.visitor(socket, peer) else { return };
                match visitor.wait(SEAT_PATIENCE) {
                    Some(seat) => (visitor.socket, seat),
                    None => return visitor.turn_away(),
                }
            }
        };
        self.visitor_waited = false;
        self.runner.clock.read();
        let mut connection =
            Connection::new(TransportInfo::plain(peer), &shared.site, &self.runner.clock.now);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.serve(&mut connection, &socket);
            connection.abort(&mut self.runner.cx());
            self.release();
            self.inbox = None;
        }));
        self.streams.clear();
        if let Err(panic) = outcome {
            shared.panicked(&*panic);
        }
        self.runner.report();
        while self.runner.has_unreported() {
            thread::yield_now();
            self.runner.report();
        }
    }

    fn serve(&mut self, connection: &mut Connection, socket: &OwnedFd) {
        for direction in [Timeout::Recv, Timeout::Send] {
            if set_socket_timeout(socket, direction, Some(LOOK_UP)).is_err() {
                return;
            }
        }
        let mut waits = true;
        loop {
            if waits == connection.is_exchanging() {
                // Where two sockets may be ready, nobody waits for one of them alone.
                waits = !waits;
                let restored = match waits {
                    true => set_socket_timeout(socket, Timeout::Send, Some(LOOK_UP)),
                    false => Ok(()),
                };
                if restored.and_then(|()| rustix::io::ioctl_fionbio(socket, !waits)).is_err() {
                    return;
                }
            }
            if connection.deadline_ms() <= self.runner.clock.now.ms() {
                socket::expire(connection, socket, &mut self.runner.cx());
            }
            let want = connection.want(&mut self.runner.cx());
            self.release();
            match want {
                Want::Receive => {
                    let received = socket::receive(socket, &mut self.buffer);
                    self.runner.clock.read();
                    let (runner, buffer) = (&mut self.runner, &self.buffer);
                    match received {
                        Received::Bytes(count) => connection.received(&buffer[..count], &mut runner.cx()),
                        Received::End => connection.received_end(&mut runner.cx()),
                        Received::Blocked => {
                            if !connection.receive_blocked() && self.leaves(connection) {
                                return;
                            }
                        }
                        Received::Gone => connection.abort(&mut runner.cx()),
                    }
                }
                Want::Send => {
                    let Some(output) = connection.output() else { return };
                    let sent = socket::send(socket, output, None);
                    self.runner.clock.read();
                    let cx = &mut self.runner.cx();
                    match sent {
                        Sent::Bytes(count) => connection.sent(count, cx),
                        Sent::Blocked => {
                            connection.send_blocked();
                        }
                        Sent::Broken => connection.abort(cx),
                    }
                    self.runner.report();
                }
                Want::Job(id, job) => {
                    let outcome = self.runner.shared.run(&job);
                    // What the disk took is not the client's time.
                    self.runner.clock.read();
                    connection.completed(id, outcome, &mut self.runner.cx());
                }
                Want::Begin(id) => {
                    // Without one there is nobody who could be told.
                    let Ok(inbox) = Inbox::new().map(Arc::new) else { return };
                    self.inbox = Some(Arc::clone(&inbox));
                    let reply = Box::new(move |begun: Begun| inbox.put(0, Letter::Begun(id, begun)));
                    let stream = self.talker.begin(connection, id, socket, &mut self.runner.cx(), reply);
                    self.streams.extend(stream.map(|stream| (id, stream)));
                }
                want @ (Want::SendBackend(id) | Want::ReceiveBackend(id) | Want::ShutdownBackend(id)) => {
                    self.runner.clock.read();
                    let stream = self.streams.iter().find(|(of, _)| *of == id).map(|(_, stream)| stream);
                    self.talker.perform(&want, connection, stream, &mut self.runner.cx());
                }
                Want::Exchange(awaited) => self.wait_for_either(awaited, connection, socket),
                Want::ShutdownWrite => {
                    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
                        return;
                    }
                }
                Want::Reset => return socket::reset(socket),
                // A job is done where it is wanted, so there is never one to wait for.
                Want::Completion | Want::HandOver | Want::Close => return,
            }
        }
    }

    /// Waits for the client or its program, whichever is ready first.
    fn wait_for_either(&mut self, awaited: Awaited, connection: &mut Connection, socket: &OwnedFd) {
        let flags = |reads: bool, writes: bool| {
            let read = if reads { PollFlags::IN | PollFlags::RDHUP } else { PollFlags::empty() };
            read | if writes { PollFlags::OUT } else { PollFlags::empty() }
        };
        let client = flags(awaited.client_in, awaited.client_out);
        let mut polled = Vec::with_capacity(3);
        polled.push(PollFd::new(socket, client));
        let mut watched = Vec::with_capacity(self.streams.len());
        for (id, stream) in &self.streams {
            let (bytes, room) = connection.awaited_of(*id);
            // Where neither is of use, its end would be heard of again and again.
            if bytes || room {
                polled.push(PollFd::new(stream, flags(bytes, room)));
                watched.push(*id);
            }
        }
        // What rings here in the program's place is its beginning.
        let inbox = self.inbox.clone();
        if let Some(inbox) = &inbox {
            polled.push(PollFd::new(inbox.bell(), PollFlags::IN));
        }
        // An interruption is no reason to do anything else than to look.
        let _ = poll(&mut polled, Timespec::try_from(LOOK_UP).ok().as_ref());
        let happened = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
        let gone = polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let client = happened(0);
        let ready: Vec<bool> = (0..watched.len()).map(|at| happened(at + 1)).collect();
        self.runner.clock.read();
        if client {
            connection.client_ready();
        }
        for (id, _) in watched.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            connection.backend_ready(id);
        }
        for (_, letter) in inbox.iter().flat_map(|inbox| inbox.empty()) {
            if let Letter::Begun(id, begun) = letter {
                // There is only one.
                self.inbox = None;
                let stream = tell_begun(connection, id, begun, &mut self.runner.cx());
                self.streams.extend(stream.map(|stream| (id, stream)));
            }
        }
        if gone {
            connection.abort(&mut self.runner.cx());
        }
    }

    /// Streams of exchanges that are over go back to whoever lent them.
    fn release(&mut self) {
        for release in self.runner.released() {
            let place = self.streams.iter().position(|(id, _)| *id == release.exchange);
            release.finish(place.map(|place| self.streams.swap_remove(place).1));
        }
    }

    /// Whether an idle client should not keep this runner, because another client needs it, or a seat.
    fn leaves(&mut self, connection: &Connection) -> bool {
        let is_idle = connection.idle_since_ms(&self.runner.shared.site).is_some();
        if is_idle && self.runner.shared.seats.are_wanted() {
            return true;
        }
        // A free runner may be about to accept: one look says little.
        let waits = is_idle && self.listener.has_visitor();
        mem::replace(&mut self.visitor_waited, waits) && waits
    }
}
