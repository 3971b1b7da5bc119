//! The event loop that *sped*, *amped* and *uring* share: it performs every want that the kernel answers at once, and
//! leaves jobs to its dispatch.
//!
//! One loop is one thread with connections of its own. The only call it ever sleeps in is its port's wait.

mod slot;
mod streams;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::job::{Job, Outcome};
use flash_core::local::LocalCache;
use flash_core::program::Begun;
use flash_core::record::Peer;
use flash_core::{Connection, Context, ExchangeId, TransportInfo};
use flash_observe::metrics::LoopMetrics;
use slab::Slab;

use crate::accept::Listener;
use crate::door::{Arrival, Door};
use crate::exchange::{Talker, tell_begun};
use crate::helpers::Client;
use crate::inbox::{Inbox, Letter};
use crate::longest_idle::LongestIdle;
use crate::port::{Event, Port, TOKEN_MAX, Until};
use crate::runner::Runner;
use crate::seat::{Seat, Visitor};
use crate::shared::Shared;
use crate::socket;
use crate::timers::{Standing, Timers};

use self::slot::{Shop, Slot, Turn};
use self::streams::{Chain, Streams};

/// What a loop does with a job: the whole difference between the architectures that have loops.
pub(crate) trait Dispatch {
    /// Does the job now, or sees to it that its result comes to the loop's inbox under `token` and `exchange`. A queue for helpers is
    /// fair to each `client`. A sleep on the way is counted in `account`.
    fn dispatch(
        &mut self,
        job: Job,
        token: u64,
        exchange: ExchangeId,
        client: Client,
        metrics: &LoopMetrics,
    ) -> Option<Outcome>;
}

pub(crate) struct EventLoop<D, P: Port> {
    runner: Runner,
    metrics: Arc<LoopMetrics>,
    dispatch: D,
    inbox: Arc<Inbox>,
    port: P,
    door: Door,
    // Boxed, so that growing moves pointers and not connections.
    slots: Slab<Box<Slot<P::Link>>>,
    generation: u32,
    timers: Timers,
    late: VecDeque<Late>,
    talker: Talker,
    streams: Streams,
    longest_idle: LongestIdle,
    /// Listeners at which connections have arrived in this turn.
    arrivals: Vec<usize>,
}

/// What takes long, by connection: it waits until all that is ready has been answered from the caches, so that little
/// requests do not wait for what others' large or cold files cost.
enum Late {
    Job(u64, ExchangeId, Job),
    Completed(u64, ExchangeId, Outcome),
    Begun(u64, ExchangeId, Begun),
    Visitor(Visitor),
    /// Its program may have said something. However much that is, others come first.
    Heard(u64),
    /// It had its share of a turn and could go on at once.
    Others(u64),
}

/// Where what is told to a connection may have to be noted.
struct Io<'a, P> {
    port: &'a mut P,
    streams: &'a mut Streams,
}

/// What is late and done before the loop looks who has come meanwhile.
const LATE_PER_TURN: usize = 4;
/// Tokens with this generation are not connections'.
const NO_CONNECTION: u32 = ((TOKEN_MAX - 1) >> 32) as u32;
const INBOX: u64 = token(NO_CONNECTION, u32::MAX as usize);

const fn token(generation: u32, index: usize) -> u64 {
    (generation as u64) << 32 | index as u64
}

const fn split(token: u64) -> (u32, usize) {
    ((token >> 32) as u32, token as u32 as usize)
}

fn slot_of<L>(slots: &Slab<Box<Slot<L>>>, token: u64) -> Option<&Slot<L>> {
    let (generation, index) = split(token);
    slots.get(index).map(|slot| &**slot).filter(|slot| slot.generation == generation)
}

impl<D: Dispatch + Send + 'static, P: Port> EventLoop<D, P> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        listeners: Arc<Vec<Listener>>,
        inbox: Arc<Inbox>,
        dispatch: D,
    ) -> io::Result<Self> {
        let mut port = P::new(&inbox, INBOX)?;
        let local = LocalCache::new(shared.site.paths.local_bytes_max());
        let runner = Runner::new(shared, local);
        let mut door = Door::new(listeners, |listener| token(NO_CONNECTION, listener))?;
        door.open(&mut port)?;
        Ok(Self {
            timers: Timers::new(runner.clock.now.ms()),
            metrics: Arc::clone(runner.metrics()),
            talker: Talker::new(&runner.shared),
            runner,
            dispatch,
            inbox,
            port,
            door,
            slots: Slab::new(),
            generation: 0,
            streams: Streams::default(),
            late: VecDeque::new(),
            longest_idle: LongestIdle::default(),
            arrivals: Vec::new(),
        })
    }

    pub(crate) fn spawn(mut self, number: usize) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name(format!("loop-{number}")).spawn(move || {
            if let Err(error) = self.run() {
                self.runner.shared.error_log.log(format_args!("loop {number} ends: {error}"));
            }
        })
    }

    fn run(&mut self) -> io::Result<()> {
        // Refused or not, the loop runs.
        let _ = flash_os::sched::set_slice(flash_os::sched::SLICE_NS_MIN);
        self.port.begin()?;
        let mut give_up_ms = u64::MAX;
        loop {
            let timeout = self.timeout(give_up_ms);
            let events = self.port.wait(timeout)?;
            let turn = self.metrics.begin(events, self.runner.clock.read());
            while let Some(event) = self.port.next() {
                self.handle(event);
            }
            // By now those that seemed idle, and were not, have been heard.
            while let Some(listener) = self.arrivals.pop() {
                self.accept(listener);
            }
            self.catch_up();
            self.expire();
            self.runner.report();
            self.metrics.end(turn);
            if self.runner.shared.is_draining() {
                if give_up_ms == u64::MAX {
                    give_up_ms =
                        self.runner.clock.now.ms() + self.runner.shared.limits.drain.as_millis() as u64;
                    self.door.close(&mut self.port);
                    self.turn_all(|_, _, _| {});
                }
                if self.slots.is_empty() || self.runner.clock.now.ms() >= give_up_ms {
                    self.turn_all(|slot, _, cx| slot.connection.abort(cx));
                    self.runner.report();
                    return Ok(());
                }
            }
        }
    }

    fn timeout(&self, give_up_ms: u64) -> Option<Duration> {
        if !self.late.is_empty() {
            return Some(Duration::ZERO);
        }
        let now_ms = self.runner.clock.now.ms();
        let give_up = (give_up_ms != u64::MAX).then(|| give_up_ms.saturating_sub(now_ms));
        let unreported = self.runner.has_unreported().then_some(0);
        let times = [unreported, self.timers.wait_ms(now_ms), self.door.wait_ms(now_ms), give_up];
        let ms = times.into_iter().flatten().min()?;
        // A millisecond more, so that rounding never wakes the loop just before it is time.
        Some(Duration::from_millis(ms + 1))
    }

    fn handle(&mut self, event: Event<P::News>) {
        match split(event.token) {
            (NO_CONNECTION, _) if event.token == INBOX => {
                let finished = self.inbox.empty();
                self.late.extend(finished.map(|(token, letter)| match letter {
                    Letter::Done(id, outcome) => Late::Completed(token, id, outcome),
                    Letter::Begun(id, begun) => Late::Begun(token, id, begun),
                    Letter::Visitor(visitor) => Late::Visitor(visitor),
                }));
            }
            (NO_CONNECTION, listener) => self.arrivals.push(listener),
            _ if streams::is_stream(event.token) => self.hear(event.token, P::goes_on(&event.news)),
            _ => self.turn(event.token, |slot, io, cx| {
                if !io.port.note(&mut slot.link, event.news) {
                    // Both directions are gone: there is nobody to answer.
                    slot.connection.abort(cx);
                }
                slot.connection.client_ready();
            }),
        }
    }

    /// Something has happened at a program's stream.
    fn hear(&mut self, token: u64, goes_on: bool) {
        let Some((token, exchange)) = self.streams.heard(token, goes_on) else { return };
        let (generation, index) = split(token);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation);
        if let Some(slot) = slot {
            slot.connection.backend_ready(exchange);
            self.late.push_back(Late::Heard(token));
        }
    }

    /// Does some of what is late.
    fn catch_up(&mut self) {
        for _ in 0..LATE_PER_TURN {
            match self.late.pop_front() {
                Some(Late::Others(token) | Late::Heard(token)) => self.turn(token, |_, _, _| {}),
                Some(Late::Completed(token, id, outcome)) => self.complete(token, id, outcome),
                Some(Late::Begun(token, id, begun)) => self.turn(token, |slot, io, cx| {
                    if let Some(stream) = tell_begun(&mut slot.connection, id, begun, cx) {
                        io.streams.insert(&mut slot.streams, token, id, stream);
                    }
                }),
                Some(Late::Visitor(visitor)) => self.host(visitor),
                Some(Late::Job(token, id, job)) => {
                    // Nobody may be left to ask for it.
                    let Some(slot) = slot_of(&self.slots, token) else { continue };
                    let client = Client::of(slot.connection.peer());
                    if let Some(outcome) = self.dispatch.dispatch(job, token, id, client, &self.metrics) {
                        self.complete(token, id, outcome);
                    }
                }
                None => return,
            }
        }
    }

    fn complete(&mut self, token: u64, id: ExchangeId, outcome: Outcome) {
        self.metrics.spend(&outcome.spent);
        self.turn(token, |slot, _, cx| slot.connection.completed(id, outcome, cx));
    }

    fn accept(&mut self, listener: usize) {
        self.door.retry(&mut self.port, self.runner.clock.now.ms());
        for _ in 0..crate::door::ACCEPTS_PER_TURN {
            match self.door.accept(&self.runner.shared, &mut self.port, listener, self.runner.clock.now.ms())
            {
                Some(Arrival::Seated(socket, peer, seat)) => self.welcome(socket, peer, seat),
                Some(Arrival::Visitor(visitor)) => self.host(visitor),
                Some(Arrival::Gone) => {}
                None => break,
            }
        }
        self.door.listen_again(&mut self.port, listener, self.runner.clock.now.ms());
    }

    fn welcome(&mut self, socket: OwnedFd, peer: Peer, seat: Seat) {
        self.generation = (self.generation + 1) % NO_CONNECTION;
        let index = self.slots.insert(Box::new(Slot {
            connection: Connection::new(
                TransportInfo::plain(peer),
                &self.runner.shared.site,
                &self.runner.clock.now,
            ),
            socket,
            link: P::link(),
            generation: self.generation,
            standing: Standing::NOWHERE,
            streams: Chain::EMPTY,
            seat,
        }));
        self.turn(token(self.generation, index), |_, _, _| {});
    }

    fn host(&mut self, visitor: Visitor) {
        match self.runner.shared.seat().or_else(|| self.take_seat()) {
            Some(seat) => self.welcome(visitor.socket, visitor.peer, seat),
            None => visitor.pass_on(&self.inbox),
        }
    }

    /// The seat of the connection that has been idle for longest, which is closed.
    fn take_seat(&mut self) -> Option<Seat> {
        let Self { slots, runner, longest_idle, .. } = self;
        let since = |slot: &Slot<P::Link>| slot.connection.idle_since_ms(&runner.shared.site);
        let all = slots.iter().map(|(index, slot)| (since(slot), token(slot.generation, index)));
        let since = |token| since(slot_of(slots, token)?);
        let token = longest_idle.find(runner.clock.now.ms(), all, since)?;
        Some(self.close(token)?.pass_on())
    }

    fn expire(&mut self) {
        self.door.retry(&mut self.port, self.runner.clock.now.ms());
        let now_ms = self.runner.clock.now.ms();
        while let Some((tick, tokens)) = self.timers.take_due(now_ms) {
            for token in tokens {
                self.turn(token, |slot, _, cx| {
                    if slot.standing == tick {
                        slot.standing = Standing::NOWHERE;
                        socket::expire(&mut slot.connection, &slot.socket, cx);
                    }
                });
            }
        }
    }

    fn turn_all(&mut self, mut what: impl FnMut(&mut Slot<P::Link>, Io<'_, P>, &mut Context<'_>)) {
        let tokens: Vec<u64> = self.slots.iter().map(|(index, slot)| token(slot.generation, index)).collect();
        for token in tokens {
            self.turn(token, &mut what);
        }
    }

    /// Tells a connection what has happened, and performs its wants until it has to wait.
    fn turn(&mut self, token: u64, what: impl FnOnce(&mut Slot<P::Link>, Io<'_, P>, &mut Context<'_>)) {
        let (generation, index) = split(token);
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.generation == generation) else {
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let cx = &mut self.runner.cx();
            what(slot, Io { port: &mut self.port, streams: &mut self.streams }, cx);
            let shop = Shop {
                late: &mut self.late,
                metrics: &self.metrics,
                talker: &mut self.talker,
                streams: &mut self.streams,
                inbox: &self.inbox,
            };
            slot.perform(token, cx, shop, &mut self.port)
        }));
        if self.runner.has_released() {
            slot.release(&mut self.runner.cx(), &mut self.streams, &mut self.port);
        }
        match outcome {
            Ok(Turn::Exchanges(awaited)) => {
                if slot.settle_exchange(token, awaited, &mut self.streams, &mut self.port).is_ok() {
                    return self.timers.set(token, slot.connection.deadline_ms(), &mut slot.standing);
                }
            }
            Ok(Turn::Waits(until)) => {
                if self.port.settle(&mut slot.link, &slot.socket, token, until).is_ok() {
                    match until {
                        Until::Others => self.late.push_back(Late::Others(token)),
                        _ => self.timers.set(token, slot.connection.deadline_ms(), &mut slot.standing),
                    }
                    return;
                }
            }
            Ok(Turn::Ends) => {}
            Err(panic) => self.runner.shared.panicked(&*panic),
        }
        self.close(token);
    }

    /// Forgets a connection. Its seat is free for another one.
    fn close(&mut self, token: u64) -> Option<Seat> {
        let (generation, index) = split(token);
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == generation)?;
        self.streams.close(slot.streams, &mut self.port);
        let Slot { socket, link, seat, .. } = *self.slots.remove(index);
        self.port.close(link, socket, token);
        Some(seat)
    }
}

#[cfg(test)]
mod simulation;
