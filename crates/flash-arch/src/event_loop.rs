//! The event loop that *sped* and *amped* share: it performs every want that the kernel answers at once, and leaves
//! jobs to its dispatch.
//!
//! One loop is one thread with connections of its own. The only call it ever sleeps in is `epoll_wait`.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::job::{Job, Outcome};
use flash_core::local::LocalCache;
use flash_core::record::Peer;
use flash_core::{Connection, Context, Want};
use flash_observe::ledger::Account;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;

use crate::accept::Listener;
use crate::door::Door;
use crate::inbox::Inbox;
use crate::runner::Runner;
use crate::shared::{Seat, Shared};
use crate::socket::{self, Received, Sent};
use crate::timers::{Standing, Timers};

/// What a loop does with a job: the whole difference between the architectures that have loops.
pub(crate) trait Dispatch {
    /// Does the job now, or sees to it that its result comes to the loop's inbox under `token`.
    /// A sleep on the way is counted in `account`.
    fn dispatch(&mut self, job: Job, token: u64, account: &Account) -> Option<Outcome>;
}

pub(crate) struct EventLoop<D> {
    runner: Runner,
    account: Arc<Account>,
    dispatch: D,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    door: Door,
    // Boxed, so that growing moves pointers and not connections.
    slots: Slab<Box<Slot>>,
    generation: u32,
    timers: Timers,
    buffer: Box<[u8]>,
    /// Connections that had their share of a turn and could go on at once.
    unfinished: Vec<u64>,
}

/// A connection and what the loop knows about its socket.
struct Slot {
    connection: Connection,
    socket: OwnedFd,
    generation: u32,
    registered: bool,
    /// Nothing says that a read would find nothing.
    readable: bool,
    /// The client has closed its side: reads go on until they see the end.
    hung_up: bool,
    standing: Standing,
    _seat: Seat,
}

/// What is left of a connection after it had its turn.
#[derive(PartialEq, Eq)]
enum Turn {
    Waits,
    /// It could go on, but others are waiting.
    Unfinished,
    Ends,
}

const EVENTS_MAX: usize = 256;
const RECEIVE_BYTES: usize = 64 << 10;
/// Wants that one connection may have performed before it is somebody else's turn.
const WANTS_PER_TURN: usize = 16;
/// Tokens with this generation are not connections'.
const NO_CONNECTION: u32 = u32::MAX;
const INBOX: u64 = token(NO_CONNECTION, u32::MAX as usize);

const fn token(generation: u32, index: usize) -> u64 {
    (generation as u64) << 32 | index as u64
}

const fn split(token: u64) -> (u32, usize) {
    ((token >> 32) as u32, token as u32 as usize)
}

impl<D: Dispatch + Send + 'static> EventLoop<D> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        listeners: Arc<Vec<Listener>>,
        inbox: Arc<Inbox>,
        dispatch: D,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakes = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, inbox.bell(), epoll::EventData::new_u64(INBOX), wakes)?;
        let local = LocalCache::new(shared.site.paths.local_bytes_max());
        let runner = Runner::new(shared, local);
        let mut door = Door::new(listeners)?;
        door.open(&epoll, |listener| token(NO_CONNECTION, listener))?;
        Ok(Self {
            timers: Timers::new(runner.clock.now.ms()),
            account: Arc::clone(runner.account()),
            runner,
            dispatch,
            inbox,
            epoll,
            door,
            slots: Slab::new(),
            generation: 0,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            unfinished: Vec::new(),
        })
    }

    pub(crate) fn spawn(mut self, number: usize) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name(format!("loop-{number}")).spawn(move || {
            if let Err(error) = self.run() {
                self.runner.shared.error_log.say(format_args!("loop {number} ends: {error}"));
            }
        })
    }

    fn run(&mut self) -> io::Result<()> {
        // Refused or not, the loop runs.
        let _ = flash_os::slice::ask_for(flash_os::slice::SHORTEST_NS);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut give_up_ms = u64::MAX;
        loop {
            let timeout = self.timeout(give_up_ms);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let turn = self.account.begin(events.len(), self.runner.clock.read());
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            for token in std::mem::take(&mut self.unfinished) {
                self.turn(token, |_, _| {});
            }
            self.expire();
            self.runner.report();
            self.account.end(turn);
            if self.runner.shared.is_draining() {
                if give_up_ms == u64::MAX {
                    give_up_ms =
                        self.runner.clock.now.ms() + self.runner.shared.limits.drain.as_millis() as u64;
                    self.door.close(&self.epoll);
                    self.turn_all(|_, _| {});
                }
                if self.slots.is_empty() || self.runner.clock.now.ms() >= give_up_ms {
                    self.turn_all(|slot, cx| slot.connection.abort(cx));
                    self.runner.report();
                    return Ok(());
                }
            }
        }
    }

    fn timeout(&self, give_up_ms: u64) -> Option<Timespec> {
        if !self.unfinished.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let now_ms = self.runner.clock.now.ms();
        let give_up = (give_up_ms != u64::MAX).then(|| give_up_ms.saturating_sub(now_ms));
        let unreported = self.runner.has_unreported().then_some(0);
        let times = [unreported, self.timers.wait_ms(now_ms), self.door.wait_ms(now_ms), give_up];
        let ms = times.into_iter().flatten().min()?;
        // A millisecond more, so that rounding never wakes the loop just before it is time.
        Timespec::try_from(Duration::from_millis(ms + 1)).ok()
    }

    fn handle(&mut self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as Flag;
        match split(token) {
            (NO_CONNECTION, _) if token == INBOX => {
                for (token, outcome) in self.inbox.empty() {
                    self.account.spend(&outcome.spent);
                    self.turn(token, |slot, cx| slot.connection.completed(outcome, cx));
                }
            }
            (NO_CONNECTION, listener) => self.accept(listener),
            _ => self.turn(token, |slot, cx| {
                slot.readable |= flags.intersects(Flag::IN | Flag::RDHUP | Flag::HUP | Flag::ERR);
                slot.hung_up |= flags.intersects(Flag::RDHUP | Flag::HUP);
                if flags.intersects(Flag::ERR | Flag::HUP) {
                    // Both directions are gone: there is nobody to answer.
                    slot.connection.abort(cx);
                }
            }),
        }
    }

    fn accept(&mut self, listener: usize) {
        self.door.retry(&self.epoll, self.runner.clock.now.ms(), |listener| token(NO_CONNECTION, listener));
        for _ in 0..crate::door::ACCEPTS_PER_TURN {
            match self.door.accept(&self.runner.shared, &self.epoll, listener, self.runner.clock.now.ms()) {
                Some(Some((socket, peer, seat))) => self.welcome(socket, peer, seat),
                Some(None) => {}
                None => break,
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd, peer: Peer, seat: Seat) {
        self.generation = (self.generation + 1) % NO_CONNECTION;
        let index = self.slots.insert(Box::new(Slot {
            connection: Connection::new(peer, &self.runner.shared.site, &self.runner.clock.now),
            socket,
            generation: self.generation,
            registered: false,
            // Its request may have come along with it.
            readable: true,
            hung_up: false,
            standing: Standing::NOWHERE,
            _seat: seat,
        }));
        self.turn(token(self.generation, index), |_, _| {});
    }

    fn expire(&mut self) {
        self.door.retry(&self.epoll, self.runner.clock.now.ms(), |listener| token(NO_CONNECTION, listener));
        let now_ms = self.runner.clock.now.ms();
        while let Some((tick, tokens)) = self.timers.take_due(now_ms) {
            for token in tokens {
                self.turn(token, |slot, cx| {
                    if slot.standing == tick {
                        slot.standing = Standing::NOWHERE;
                        slot.connection.expire(cx);
                    }
                });
            }
        }
    }

    fn turn_all(&mut self, mut what: impl FnMut(&mut Slot, &mut Context<'_>)) {
        let tokens: Vec<u64> = self.slots.iter().map(|(index, slot)| token(slot.generation, index)).collect();
        for token in tokens {
            self.turn(token, &mut what);
        }
    }

    /// Tells a connection what has happened, and performs its wants until it has to wait.
    fn turn(&mut self, token: u64, what: impl FnOnce(&mut Slot, &mut Context<'_>)) {
        let (generation, index) = split(token);
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.generation == generation) else {
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let cx = &mut self.runner.cx();
            what(slot, cx);
            slot.perform(token, cx, &mut self.dispatch, &self.account, &mut self.buffer)
        }));
        match outcome {
            Ok(Turn::Waits) => {
                if slot.registered || slot.register(&self.epoll, token).is_ok() {
                    self.timers.set(token, slot.connection.deadline_ms(), &mut slot.standing);
                    return;
                }
            }
            Ok(Turn::Unfinished) => return self.unfinished.push(token),
            Ok(Turn::Ends) => {}
            Err(panic) => self.runner.shared.panicked(&*panic),
        }
        self.slots.remove(index);
    }
}

impl Slot {
    fn perform(
        &mut self,
        token: u64,
        cx: &mut Context<'_>,
        dispatch: &mut impl Dispatch,
        account: &Account,
        buffer: &mut [u8],
    ) -> Turn {
        for _ in 0..WANTS_PER_TURN {
            match self.connection.want(cx) {
                Want::Receive if !self.readable => return Turn::Waits,
                Want::Receive => match socket::receive(&self.socket, buffer) {
                    Received::Bytes(count) => {
                        // A short read has emptied the socket; what comes later is a new event.
                        self.readable = count == buffer.len() || self.hung_up;
                        self.connection.received(&buffer[..count], cx);
                    }
                    Received::Blocked => self.readable = false,
                    Received::End => self.connection.received_end(),
                    Received::Gone => self.connection.abort(cx),
                },
                Want::Send => {
                    let Some(output) = self.connection.output() else { return Turn::Waits };
                    match socket::send(&self.socket, output, Some(account)) {
                        Sent::Bytes(count) => self.connection.sent(count, cx),
                        Sent::Blocked => {
                            self.connection.send_blocked();
                            return Turn::Waits;
                        }
                        Sent::Broken => self.connection.abort(cx),
                    }
                }
                Want::Job(job) => {
                    if let Some(outcome) = dispatch.dispatch(job, token, account) {
                        account.spend(&outcome.spent);
                        self.connection.completed(outcome, cx);
                    }
                }
                Want::Completion => return Turn::Waits,
                Want::ShutdownWrite => {
                    if rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).is_err() {
                        return Turn::Ends;
                    }
                }
                Want::Close => return Turn::Ends,
            }
        }
        Turn::Unfinished
    }

    fn register(&mut self, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        use epoll::EventFlags as Flag;
        let flags = Flag::IN | Flag::OUT | Flag::RDHUP | Flag::ET;
        epoll::add(epoll, &self.socket, epoll::EventData::new_u64(token), flags)?;
        self.registered = true;
        Ok(())
    }
}
