//! A runner that serves one connection at a time and waits with it: what *mt* and *mp* share.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::local::LocalCache;
use flash_core::record::Peer;
use flash_core::{Connection, Want};
use flash_observe::Rarely;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::accept::{Listener, turn_away};
use crate::runner::Runner;
use crate::shared::Shared;
use crate::socket::{self, Received, Sent};

/// How long a call on a socket waits before the runner looks at deadlines and signals.
const LOOK_UP: Duration = Duration::from_millis(500);
const RECEIVE_BYTES: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Blocking<'a> {
    runner: Runner,
    /// Whether somebody else could use this runner, so that an idle client should not keep it.
    is_needed: &'a dyn Fn() -> bool,
    buffer: Box<[u8]>,
}

impl<'a> Blocking<'a> {
    pub(crate) fn new(shared: Arc<Shared>, is_needed: &'a dyn Fn() -> bool) -> Self {
        // There are more of these runners than processors: what each kept for itself would be too much in all.
        let runner = Runner::new(shared, LocalCache::new(0));
        Self { runner, is_needed, buffer: vec![0; RECEIVE_BYTES].into_boxed_slice() }
    }

    /// Accepts and serves until the listener is shut. `around` is called around each connection.
    pub(crate) fn run(&mut self, listener: &Listener, around: &dyn Fn(&mut dyn FnMut())) {
        static NO_ROOM: Rarely = Rarely::every(Duration::from_secs(5));
        let shared = Arc::clone(&self.runner.shared);
        while !shared.is_draining() {
            match listener.accept(SocketFlags::empty()) {
                Ok((socket, peer)) => around(&mut || self.welcome(&shared, &socket, peer)),
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(Errno::INVAL) => return,
                Err(error) => {
                    shared.ledger.shed.add(1);
                    shared
                        .error_log
                        .say_rarely(&NO_ROOM, format_args!("cannot accept a connection: {error}"));
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn welcome(&mut self, shared: &Arc<Shared>, socket: &OwnedFd, peer: Peer) {
        let Some(_seat) = shared.seat() else { return turn_away(socket) };
        self.runner.clock.read();
        let mut connection = Connection::new(peer, &shared.site, &self.runner.clock.now);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.serve(&mut connection, socket);
            connection.abort(&mut self.runner.cx());
        }));
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
        loop {
            match connection.want(&mut self.runner.cx()) {
                Want::Receive => {
                    let received = socket::receive(socket, &mut self.buffer);
                    self.runner.clock.read();
                    let cx = &mut self.runner.cx();
                    match received {
                        Received::Bytes(count) => connection.received(&self.buffer[..count], cx),
                        Received::End => connection.received_end(),
                        Received::Blocked if connection.is_idle() && (self.is_needed)() => return,
                        Received::Blocked => connection.expire(cx),
                        Received::Gone => connection.abort(cx),
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
                            connection.expire(cx);
                        }
                        Sent::Broken => connection.abort(cx),
                    }
                    self.runner.report();
                }
                Want::Job(job) => {
                    let outcome = self.runner.shared.run(&job);
                    connection.completed(outcome, &mut self.runner.cx());
                }
                Want::ShutdownWrite => {
                    if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
                        return;
                    }
                }
                // A job is done where it is wanted, so there is never one to wait for.
                Want::Completion | Want::Close => return,
            }
        }
    }
}
