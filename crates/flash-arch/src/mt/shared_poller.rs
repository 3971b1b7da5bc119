//! The poller that all threads of mt wait in. It reports new connections, and parked ones whose clients have sent something.
//!
//! Each event wakes one thread: the one that began to wait last, so that threads beyond the load stay idle and retire. A
//! parked connection belongs to no thread. The thread that its event wakes takes it out and serves it.
//!
//! If a deadline passes, or the server drains, a thread gets the connection in the same way, and closes it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use flash_core::{Drain, Evictable, TransportInfo};
use flash_os::poller::{Interest, Poller};
use flash_os::socket::Waits;
use flash_os::waker::Waker;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::blocking::ServedClient;
use crate::clock::server_us;
use crate::connections::listener::Listeners;
use crate::connections::parked::Parked;
use crate::connections::victims;
use crate::fair_queue::ClientNetwork;
use crate::server_state::ServerState;

pub(super) struct SharedPoller {
    poller: Poller,
    /// Those that are watched.
    listeners: ArcSwap<Listeners>,
    state: Mutex<PollerState>,
    /// Wakes [`SharedPoller::watch_deadlines`].
    first_parked: Condvar,
    /// Always readable. It is armed while connections are due.
    due_event: Waker,
}

struct PollerState {
    parked: Parked<Box<ServedClient>>,
    /// Tokens of connections that a thread shall take without an event of their own.
    due: Vec<u64>,
}

/// What a thread was woken for.
pub(super) enum Event {
    /// A connection can be accepted at the listener of this number.
    Listener(usize),
    /// A connection that was parked.
    Parked(Box<ServedClient>),
    /// Another thread was faster.
    Nothing,
    TimedOut,
}

/// What is reported once stays silent until it is armed again.
const ONCE: Interest = Interest::INPUT.once();
const SILENT: Interest = Interest::NONE.once();
const DUE: u64 = u64::MAX;
/// Tokens below are numbers of listeners, because no parked connection has generation 0.
const PARKED_MIN: u64 = 1 << 32;
/// How often deadlines are looked at while connections are parked.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often parked connections are looked for while the server drains.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

impl SharedPoller {
    pub(super) fn new() -> io::Result<Self> {
        let (poller, due_event) = (Poller::new()?, Waker::new()?);
        due_event.wake();
        poller.add(&due_event, DUE, SILENT)?;
        let state = Mutex::new(PollerState { parked: Parked::new(now_ms()), due: Vec::new() });
        let listeners = ArcSwap::default();
        Ok(Self { poller, listeners, state, first_parked: Condvar::new(), due_event })
    }

    /// Watches these listeners from now on, and leaves those that are not among them. To be called by one thread.
    pub(super) fn watch(&self, next: &Arc<Listeners>) -> io::Result<()> {
        let before = self.listeners.swap(Arc::clone(next));
        let count = before.len().max(next.len());
        for number in 0..count {
            let [old, new] = [&before, next].map(|all| all.get(number).and_then(Option::as_ref));
            let is_same = matches!((old, new), (Some(old), Some(new)) if Arc::ptr_eq(old, new));
            if is_same {
                continue;
            }
            if let Some(old) = old {
                let _ = self.poller.delete(old);
            }
            if let Some(new) = new {
                self.poller.add(new, number as u64, ONCE)?;
            }
        }
        Ok(())
    }

    /// Waits for an event, for this long at most.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Event {
        let token = match self.poller.wait_for_one(timeout) {
            Ok(event) => event.map(|event| event.token),
            Err(_) => return Event::Nothing,
        };
        match token {
            None => Event::TimedOut,
            Some(DUE) => self.take_due().map_or(Event::Nothing, Event::Parked),
            Some(token) if token < PARKED_MIN => Event::Listener(token as usize),
            Some(token) => self.state.lock().parked.take(token).map_or(Event::Nothing, Event::Parked),
        }
    }

    /// Whether a connection waits for a thread.
    pub(super) fn has_event(&self) -> bool {
        self.poller.has_event()
    }

    fn take_due(&self) -> Option<Box<ServedClient>> {
        let mut state = self.state.lock();
        let PollerState { parked, due } = &mut *state;
        let client = std::iter::from_fn(|| due.pop()).find_map(|token| parked.take(token));
        self.disarm(client.as_deref());
        if !due.is_empty() {
            self.arm(&self.due_event, DUE);
        }
        client
    }

    /// Accepts a connection, and lets the next thread accept.
    pub(super) fn accept(&self, listener: usize) -> Result<(OwnedFd, TransportInfo), Errno> {
        let listeners = self.listeners.load();
        // A reload may have removed it since the event.
        let Some(Some(watched)) = listeners.get(listener) else { return Err(Errno::AGAIN) };
        let accepted = watched.accept(Waits::Yes);
        if !matches!(accepted, Err(Errno::INVAL)) {
            let _ = self.poller.modify(watched, listener as u64, ONCE);
        }
        accepted
    }

    /// Has something reported again that the poller knows.
    fn arm(&self, what: impl AsFd, token: u64) {
        self.poller.modify(what, token, ONCE).expect("a change of what is known takes no memory");
    }

    /// Parks a connection until its client sends something.
    pub(super) fn park(&self, client: Box<ServedClient>) {
        let deadline_ms = client.connection.deadline_ms();
        let mut state = self.state.lock();
        let is_first = state.parked.is_empty();
        let token = state.parked.park(client, deadline_ms);
        let Some(client) = state.parked.get(token) else { return };
        let armed = match self.poller.modify(&client.socket, token, ONCE) {
            // It is parked for the first time.
            Err(Errno::NOENT) => self.poller.add(&client.socket, token, ONCE),
            armed => armed,
        };
        // If the kernel has no room for another one, it could never be served again, and is closed.
        let closed = if armed.is_err() { state.parked.take(token) } else { None };
        drop(state);
        drop(closed);
        if is_first {
            self.first_parked.notify_one();
        }
    }

    /// Takes out the parked connection that goes first when a new one needs its place.
    pub(super) fn take_victim(&self, shared: &ServerState) -> Option<Box<ServedClient>> {
        let (now_ms, configuration) = (now_ms(), shared.configuration());
        let settings = &configuration.server.settings;
        let victim = self.state.lock().parked.take_victim(now_ms, |client| {
            let ServedClient { connection, transport, socket, .. } = &**client;
            (victims::evictable(connection, transport, socket, now_ms, settings), of(client))
        });
        self.disarm(victim.as_deref());
        victim
    }

    /// Takes out a parked connection whose handshake has waited for its client for longest.
    pub(super) fn take_oldest_handshake(&self) -> Option<Box<ServedClient>> {
        let since = |client: &ServedClient| client.transport.unfinished_since_ms().map(Evictable::Unfinished);
        let oldest =
            self.state.lock().parked.take_oldest_handshake(now_ms(), |client| (since(client), of(client)));
        self.disarm(oldest.as_deref());
        oldest
    }

    /// A thread has the connection without an event of its own.
    fn disarm(&self, client: Option<&ServedClient>) {
        client.into_iter().for_each(|client| self.poller.disarm(&client.socket));
    }

    /// Gives threads the connections whose deadline has passed. While the server drains, all of them. Runs until the
    /// process ends.
    pub(super) fn watch_deadlines(&self, shared: &ServerState) {
        let mut state = self.state.lock();
        loop {
            let PollerState { parked, due } = &mut *state;
            let drains = shared.drain_state() == Drain::AtOnce;
            match drains {
                true if due.is_empty() => due.extend(parked.tokens()),
                true => {}
                false => due.append(&mut parked.due(now_ms())),
            }
            if !due.is_empty() {
                self.arm(&self.due_event, DUE);
            }
            match drains {
                true => _ = self.first_parked.wait_for(&mut state, DRAIN_EVERY),
                false if state.parked.is_empty() => self.first_parked.wait(&mut state),
                false => _ = self.first_parked.wait_for(&mut state, LOOK_EVERY),
            }
        }
    }

    /// Leaves the listeners, and gives the parked connections to threads. The server drains already.
    pub(super) fn drain(&self) {
        for listener in self.listeners.load().iter().flatten() {
            // A successor may have the same socket, and its connections must wake no thread here.
            let _ = self.poller.delete(listener);
        }
        // With the lock, because the other thread may be about to wait.
        let _state = self.state.lock();
        self.first_parked.notify_one();
    }
}

/// Whose connection it is.
fn of(client: &ServedClient) -> ClientNetwork {
    ClientNetwork::of(client.connection.peer())
}

fn now_ms() -> u64 {
    server_us(Instant::now()) / 1000
}
