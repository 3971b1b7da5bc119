//! A worker that serves one connection at a time and blocks with it: what *mt* and *mp* share.
//!
//! A worker waits for its client's next bytes for a moment only. Then it parks the connection, and is free for another one.
//! Where connections come from and where they are parked is the [`Source`]'s business.

use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::cache::local::LocalCache;
use flash_core::job::{Done, Failure};
use flash_core::record::counters::Count;
use flash_core::{Connection, Drain, ExchangeId, Interest};
use flash_observe::RateLimit;
use flash_os::allocator::Collected;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::completion_queue::{Completion, CompletionQueue};
use crate::server_state::ServerState;
use crate::upstream_io::{UpstreamIo, tell_opened};
use crate::worker::Worker;

pub(crate) use self::source::{Arrival, ServedClient, Source};

mod admit;
mod serving;
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

impl<S: Source> Blocking<S> {
    pub(crate) fn new(shared: Arc<ServerState>, source: S) -> Self {
        // There are more workers than processors, so caches of their own would take too much memory.
        let worker = Worker::new(shared, Some(LocalCache::new(0)));
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

    fn serve_client(&mut self, shared: &Arc<ServerState>, mut client: Box<ServedClient>) {
        self.source.holds(client.connection.counted_at());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let after = self.serve(&mut client);
            if after == After::Close {
                client.connection.abort(&mut self.worker.cx());
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

    /// Takes a step of the handshake, when a processor is left for it.
    fn take_step(&mut self, ServedClient { connection, transport, socket, .. }: &mut ServedClient) {
        let patience = connection.deadline_ms().saturating_sub(self.worker.clock.now.ms());
        let (source, worker) = (&self.source, &mut self.worker);
        source.take_step(Duration::from_millis(patience).min(LOOK_UP), &mut || {
            transport.step(socket, connection, &mut worker.cx());
        });
        self.worker.clock.read();
    }

    /// Leaves a connection whose client sends nothing, if that is possible. Else waits for the client.
    fn leave(&mut self, client: &mut ServedClient) -> ControlFlow<After> {
        let ServedClient { connection, transport, socket, .. } = client;
        let shared = &self.worker.shared;
        // While the server drains, this worker closes the connection itself.
        if shared.drain_state() != Drain::AtOnce && self.source.parks(connection, transport) {
            return Break(After::Park);
        }
        // No other worker is left, and this one could be free.
        let is_free = connection.is_between_requests() && self.worker.drain == Drain::No;
        if !self.source.may_wait() && !self.source.is_retired() && is_free && transport.is_tls() {
            // The client sees that nothing is missing.
            transport.close(socket, connection);
            return Break(After::Close);
        }
        let is_idle = connection.is_idle() && self.worker.drain == Drain::No;
        // A reload that comes later wakes this worker, and waits for it.
        self.source.awaits_request(is_idle);
        let retirement = self.source.retirement().filter(|_| is_idle);
        if is_idle && self.source.is_retired() {
            return Continue(());
        }
        let mut polled = vec![PollFd::new(socket, PollFlags::IN)];
        polled.extend(retirement.as_ref().map(|retirement| PollFd::new(retirement, PollFlags::IN)));
        // If no other worker is left, it may have to give way soon.
        let patience = if self.source.may_wait() { LOOK_UP } else { CLIENT_PATIENCE };
        let _ = poll(&mut polled, Timespec::try_from(patience).ok().as_ref());
        self.worker.clock.read();
        Continue(())
    }

    /// Waits until the client or an upstream is ready. Returns whether one is.
    fn wait_for_either(&mut self, interest: Interest, client: &mut ServedClient) -> bool {
        let ServedClient { connection, socket, .. } = client;
        let flags = |reads: bool, writes: bool| {
            let read = if reads { PollFlags::IN } else { PollFlags::empty() };
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
            polled.push(PollFd::new(completions.waker(), PollFlags::IN));
        }
        // After an interruption the worker looks at the sockets as usual.
        let now_ms = self.worker.clock.now.ms();
        let paced = connection.paced_until_ms().map(|ms| Duration::from_millis(ms.saturating_sub(now_ms)));
        let most = paced.map_or(LOOK_UP, |paced| paced.min(LOOK_UP));
        let has_happened =
            poll(&mut polled, Timespec::try_from(most).ok().as_ref()).is_ok_and(|count| count > 0);
        let happened = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
        let gone = polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let client = happened(0);
        let ready: Vec<bool> = (0..registered.len()).map(|at| happened(at + 1)).collect();
        // Before the queue is looked at, so that nothing is missed.
        let woken = completions.iter().filter(|_| happened(registered.len() + 1));
        woken.for_each(|completions| completions.waker().drain());
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
                Completion::WaitingConnection(_) => {}
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
