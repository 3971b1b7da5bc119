//! The event loop that *sped*, *amped* and *uring* share. It performs each want that the kernel answers at once, and
//! leaves jobs to its dispatch.
//!
//! One loop is one thread with connections of its own. The only call it ever sleeps in is its poller's wait.

mod admit;
mod deferred;
mod slot;
mod streams;
mod token;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::cache::local::LocalCache;
use flash_core::job::Outcome;
use flash_core::{Context, Drain, ExchangeId, TransportInfo};
use flash_observe::metrics::{Gauge, LoopMetrics};
use slab::Slab;

use crate::completion_queue::{Completion, CompletionQueue};
use crate::connections::acceptor::{ACCEPTS_PER_TURN, Acceptor, Arrival};
use crate::connections::permit::ConnectionPermit;
use crate::connections::socket;
use crate::connections::victims::Victims;
use crate::dispatch::Dispatch;
use crate::fair_queue::ClientNetwork;
use crate::login_pool::LoginPool;
use crate::poller::{Event, Poller, WakeOn};
use crate::server_state::ServerState;
use crate::timer_wheel::{Timers, WheelSlots};
use crate::upstream_io::{UpstreamIo, tell_opened};
use crate::worker::Worker;

use self::deferred::Deferred;
use self::slot::{Slot, SlotTurn, Turn, WANTS_PER_TURN};
use self::streams::{Chain, Streams};
use self::token::{COMPLETIONS, NO_CONNECTION, split, token};

pub(crate) struct EventLoop<D, P: Poller> {
    worker: Worker,
    metrics: Arc<LoopMetrics>,
    dispatch: D,
    completions: Arc<CompletionQueue>,
    poller: P,
    acceptor: Acceptor,
    // Boxed, so that growing the slab moves pointers and not connections.
    slots: Slab<Box<Slot<P::SocketState>>>,
    generation: u32,
    timers: Timers,
    deferred: VecDeque<Deferred>,
    /// Connections whose handshakes wait for their next step, in the order of arrival. A connection that closes leaves its token.
    handshakes: VecDeque<u64>,
    upstream_io: UpstreamIo,
    streams: Streams,
    victims: Victims,
    oldest_handshakes: Victims,
    /// Connections whose handshakes wait for their clients.
    unfinished: Arc<Gauge>,
    logins: Arc<LoginPool>,
    /// Listeners at which connections have arrived in this turn.
    arrivals: Vec<usize>,
}

/// What an event of a connection may change in its loop.
struct Io<'a, P> {
    poller: &'a mut P,
    streams: &'a mut Streams,
}

/// The deferred work that a turn does at least.
const DEFERRED_MIN: usize = 4;
/// A turn does one piece of deferred work for so many events, so that a thousand busy clients do not delay it for long.
const EVENTS_PER_DEFERRED: usize = 4;
fn slot_of<L>(slots: &Slab<Box<Slot<L>>>, token: u64) -> Option<&Slot<L>> {
    let (generation, index) = split(token);
    slots.get(index).map(|slot| &**slot).filter(|slot| slot.generation == generation)
}

/// A kernel may count a wait in 32 bits, and --drain may be longer.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

impl<D: Dispatch + Send + 'static, P: Poller> EventLoop<D, P> {
    pub(crate) fn new(
        shared: Arc<ServerState>,
        completions: Arc<CompletionQueue>,
        dispatch: D,
    ) -> io::Result<Self> {
        let mut poller = P::new(&completions, COMPLETIONS)?;
        let local = LocalCache::new(shared.configuration().server.paths.local_bytes_max());
        let worker = Worker::new(shared, Some(local));
        let mut acceptor = Acceptor::new(&worker.shared, |listener| token(NO_CONNECTION, listener))?;
        acceptor.open(&mut poller)?;
        Ok(Self {
            timers: Timers::new(worker.clock.now.ms()),
            metrics: Arc::clone(worker.metrics()),
            upstream_io: UpstreamIo::default(),
            logins: Arc::clone(&worker.shared.logins),
            worker,
            dispatch,
            completions,
            poller,
            acceptor,
            slots: Slab::new(),
            generation: 0,
            streams: Streams::default(),
            deferred: VecDeque::new(),
            handshakes: VecDeque::new(),
            victims: Victims::default(),
            oldest_handshakes: Victims::default(),
            unfinished: Arc::default(),
            arrivals: Vec::new(),
        })
    }

    pub(crate) fn spawn(mut self, number: usize) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.worker.shared);
        let name = format!("loop-{number}");
        thread::Builder::new().name(name.clone()).spawn(move || shared.run_vital(&name, || self.run()))
    }

    fn run(&mut self) -> io::Result<()> {
        // If the kernel refuses, the loop runs all the same.
        let _ = flash_os::sched::set_slice(flash_os::sched::SLICE_NS_MIN);
        self.poller.begin()?;
        let mut drain = Drain::No;
        loop {
            let timeout = self.timeout();
            let events = self.poller.wait(timeout)?;
            let turn = self.metrics.begin(events, self.worker.clock.read());
            if self.worker.refresh() {
                self.refresh_listeners();
            }
            while let Some(event) = self.poller.next() {
                self.handle(event);
            }
            // By now the loop has read the events of connections that only seemed idle.
            while let Some(listener) = self.arrivals.pop() {
                self.accept(listener);
            }
            self.run_deferred(events);
            self.run_handshake();
            self.expire();
            self.worker.report();
            self.metrics.end(turn);
            let drain_state = self.worker.shared.drain_state();
            if drain_state.is_on() {
                if mem::replace(&mut drain, drain_state) != drain_state {
                    self.close_acceptor();
                    self.turn_all(|_, _, _| {});
                }
                if self.slots.is_empty() || self.worker.clock.now.ms() >= self.worker.shared.give_up_ms() {
                    self.turn_all(|slot, _, cx| slot.connection.abort(cx));
                    self.worker.report();
                    return Ok(());
                }
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !(self.deferred.is_empty() && self.handshakes.is_empty()) {
            return Some(Duration::ZERO);
        }
        let now_ms = self.worker.clock.now.ms();
        let give_up_ms = self.worker.shared.give_up_ms();
        let give_up = (give_up_ms != u64::MAX).then(|| give_up_ms.saturating_sub(now_ms).min(TIMEOUT_MS_MAX));
        let unreported = self.worker.has_unreported().then_some(0);
        let times = [unreported, self.timers.wait_ms(now_ms), self.acceptor.wait_ms(now_ms), give_up];
        let ms = times.into_iter().flatten().min()?;
        // One millisecond more, so that rounding never wakes the loop too early.
        Some(Duration::from_millis(ms + 1))
    }

    fn handle(&mut self, event: Event<P::Readiness>) {
        match split(event.token) {
            (NO_CONNECTION, _) if event.token == COMPLETIONS => {
                self.take_completions();
            }
            (NO_CONNECTION, listener) => self.arrivals.push(listener),
            _ if streams::is_stream(event.token) => {
                self.upstream_event(event.token, P::goes_on(&event.readiness))
            }
            _ => self.turn(event.token, |slot, io, cx| {
                if !io.poller.note(&mut slot.socket_state, event.readiness) {
                    // Both directions are shut, so no answer can be sent.
                    slot.connection.abort(cx);
                }
                slot.connection.client_ready();
            }),
        }
    }

    fn take_completions(&mut self) {
        let finished = self.completions.drain();
        self.deferred.extend(finished.map(|(token, completion)| match completion {
            Completion::Done(id, outcome) => Deferred::Completed(token, id, outcome),
            Completion::Opened(id, opened) => Deferred::Opened(token, id, opened),
            Completion::WaitingConnection(waiting_connection) => {
                Deferred::WaitingConnection(waiting_connection)
            }
        }));
    }

    /// An event of an upstream's stream.
    fn upstream_event(&mut self, token: u64, goes_on: bool) {
        let Some((token, exchange)) = self.streams.event(token, goes_on) else { return };
        let (generation, index) = split(token);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation);
        if let Some(slot) = slot {
            slot.connection.upstream_ready(exchange);
            self.deferred.push_back(Deferred::UpstreamReady(token));
        }
    }

    /// Does some of the deferred work, in a turn with so many events.
    fn run_deferred(&mut self, events: usize) {
        for _ in 0..DEFERRED_MIN.max(events / EVENTS_PER_DEFERRED) {
            match self.deferred.pop_front() {
                Some(Deferred::NextTurn(token) | Deferred::UpstreamReady(token)) => {
                    self.turn(token, |_, _, _| {})
                }
                Some(Deferred::Completed(token, id, outcome)) => self.complete(token, id, outcome),
                Some(Deferred::Opened(token, id, opened)) => self.turn(token, |slot, io, cx| {
                    if let Some(stream) = tell_opened(&mut slot.connection, id, opened, cx) {
                        io.streams.insert(&mut slot.streams, token, id, stream);
                    }
                }),
                Some(Deferred::WaitingConnection(waiting_connection)) => self.admit(waiting_connection),
                Some(Deferred::Job(token, id, job)) => {
                    // The connection may have been closed.
                    let Some(slot) = slot_of(&self.slots, token) else { continue };
                    let client = ClientNetwork::of(slot.connection.peer());
                    if let Some(outcome) = self.dispatch.dispatch(job, token, id, client, &self.metrics) {
                        self.complete(token, id, outcome);
                    }
                }
                None => return,
            }
        }
    }

    /// Takes one step of the handshake that has waited for longest. One step may cost as much as a round of events.
    fn run_handshake(&mut self) {
        while let Some(token) = self.handshakes.pop_front() {
            if slot_of(&self.slots, token).is_some() {
                return self.turn(token, |slot, _, cx| {
                    slot.transport.step(&slot.socket, &mut slot.connection, cx);
                });
            }
        }
    }

    fn complete(&mut self, token: u64, id: ExchangeId, outcome: Outcome) {
        self.metrics.shard.spend(&outcome.spent);
        self.turn(token, |slot, _, cx| slot.connection.completed(id, outcome, cx));
    }

    /// A pause ends elsewhere, after all events of a turn. A ring reports a poll that was cancelled for it, too, and another poll
    /// would then be one too many.
    fn accept(&mut self, listener: usize) {
        self.accept_waiting(listener);
        self.acceptor.listen_again(&mut self.poller, listener, self.worker.clock.now.ms());
    }

    fn accept_waiting(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.acceptor.accept(
                &self.worker.shared,
                &mut self.poller,
                listener,
                self.worker.clock.now.ms(),
            ) {
                Some(Arrival::Permitted(socket, transport, permit)) => {
                    self.open_connection(socket, transport, permit)
                }
                Some(Arrival::WaitingConnection(waiting_connection)) => self.admit(waiting_connection),
                Some(Arrival::Gone) => {}
                None => break,
            }
        }
    }

    fn close_acceptor(&mut self) {
        for listener in self.acceptor.stop_watching(&mut self.poller) {
            self.accept_waiting(listener);
        }
        self.acceptor.close();
    }

    fn open_connection(&mut self, socket: OwnedFd, transport: TransportInfo, permit: ConnectionPermit) {
        let now_ms = self.worker.clock.now.ms();
        let shared = &self.worker.shared;
        let mut carries = shared.transport(&transport, &self.unfinished, now_ms);
        if carries.unfinished_in_loop() > shared.handshakes_share() && !self.close_oldest_handshake() {
            return carries.shed();
        }
        self.generation = (self.generation + 1) % NO_CONNECTION;
        let index = self.slots.insert(Box::new(Slot {
            connection: self.worker.connection(transport),
            transport: carries,
            socket,
            socket_state: P::socket_state(),
            generation: self.generation,
            wheel_slots: WheelSlots::NOWHERE,
            streams: Chain::EMPTY,
            permit: Some(permit),
        }));
        self.turn(token(self.generation, index), |_, _, _| {});
    }

    /// Watches the listeners of a new configuration, and leaves those that it does not have. Connections that wait there are
    /// accepted before that.
    fn refresh_listeners(&mut self) {
        for listener in self.acceptor.removed(&self.worker.shared) {
            self.accept_waiting(listener);
        }
        self.acceptor.refresh(&self.worker.shared, &mut self.poller, self.worker.clock.now.ms());
    }

    fn expire(&mut self) {
        self.acceptor.retry(&mut self.poller, self.worker.clock.now.ms());
        let now_ms = self.worker.clock.now.ms();
        while let Some((due, tokens)) = self.timers.take_due(now_ms) {
            for token in tokens {
                self.turn(token, |slot, _, cx| {
                    if slot.wheel_slots.leave(due) == Some(true) {
                        socket::expire(&mut slot.connection, &slot.socket, cx);
                    }
                });
            }
        }
    }

    fn turn_all(&mut self, mut what: impl FnMut(&mut Slot<P::SocketState>, Io<'_, P>, &mut Context<'_>)) {
        let tokens: Vec<u64> = self.slots.iter().map(|(index, slot)| token(slot.generation, index)).collect();
        for token in tokens {
            self.turn(token, &mut what);
        }
    }

    /// Tells a connection what has happened, and performs its wants until it has to wait.
    fn turn(
        &mut self,
        token: u64,
        what: impl FnOnce(&mut Slot<P::SocketState>, Io<'_, P>, &mut Context<'_>),
    ) {
        let (generation, index) = split(token);
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.generation == generation) else {
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let cx = &mut self.worker.cx();
            what(slot, Io { poller: &mut self.poller, streams: &mut self.streams }, cx);
            let turn = SlotTurn {
                slot,
                token,
                cx,
                poller: &mut self.poller,
                deferred: &mut self.deferred,
                metrics: &self.metrics,
                upstream_io: &mut self.upstream_io,
                streams: &mut self.streams,
                completions: &self.completions,
                logins: &self.logins,
                wants_left: WANTS_PER_TURN,
            };
            turn.run()
        }));
        if self.worker.has_released() {
            slot.release(&mut self.worker.cx(), &mut self.streams, &mut self.poller);
        }
        match outcome {
            Ok(Turn::Exchanges(awaited)) => {
                if slot.settle_exchange(token, awaited, &mut self.streams, &mut self.poller).is_ok() {
                    return self.timers.set(token, &slot.connection, &mut slot.wheel_slots);
                }
            }
            Ok(Turn::Waits(until)) => {
                if slot.transport.queue_step() {
                    self.handshakes.push_back(token);
                }
                if self.poller.settle(&mut slot.socket_state, &slot.socket, token, until).is_ok() {
                    match until {
                        WakeOn::NextTurn => self.deferred.push_back(Deferred::NextTurn(token)),
                        _ => self.timers.set(token, &slot.connection, &mut slot.wheel_slots),
                    }
                    return;
                }
            }
            Ok(Turn::Ends) => {}
            Err(panic) => self.worker.shared.panicked(&*panic),
        }
        self.close(token);
    }

    /// Removes a connection.
    fn close(&mut self, token: u64) {
        let (generation, index) = split(token);
        if self.slots.get(index).is_none_or(|slot| slot.generation != generation) {
            return;
        }
        let Slot { socket, socket_state, streams, .. } = *self.slots.remove(index);
        self.streams.close(streams, &mut self.poller);
        self.poller.close(socket_state, socket, token);
    }
}

#[cfg(test)]
mod ends;
#[cfg(test)]
mod handshakes;
#[cfg(test)]
mod simulation;
