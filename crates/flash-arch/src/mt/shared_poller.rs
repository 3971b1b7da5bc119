//! The epoll that all threads of mt wait in. It reports new connections, and parked ones whose clients have sent something.
//!
//! Each event wakes one thread: the one that began to wait last, so that threads beyond the load stay idle and retire. A
//! parked connection belongs to no thread. The thread that its event wakes takes it out and serves it.
//!
//! If a deadline passes, or the server drains, a thread gets the connection in the same way, and closes it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use flash_core::record::Peer;
use parking_lot::{Condvar, Mutex};
use rustix::event::epoll::{self, EventData, EventFlags as Flag};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::blocking::Client;
use crate::clock::server_us;
use crate::listener::Listener;
use crate::parked::Parked;
use crate::server_state::ServerState;

pub(super) struct SharedPoller {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    state: Mutex<State>,
    /// Wakes [`SharedPoller::watch_deadlines`].
    first_parked: Condvar,
    /// Always readable. It is armed while connections are due.
    due_event: OwnedFd,
}

struct State {
    parked: Parked<Box<Client>>,
    /// Tokens of connections that a thread shall take without an event of their own.
    due: Vec<u64>,
}

/// What a thread was woken for.
pub(super) enum Event {
    /// A connection can be accepted at the listener of this number.
    Listener(usize),
    /// A connection that was parked.
    Parked(Box<Client>),
    /// Another thread was faster.
    Nothing,
    TimedOut,
}

/// What is reported once stays silent until it is armed again.
const ONCE: Flag = Flag::IN.union(Flag::RDHUP).union(Flag::ONESHOT);
const SILENT: Flag = Flag::ONESHOT;
const DUE: u64 = u64::MAX;
/// How often deadlines are looked at while connections are parked.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often parked connections are looked for while the server drains.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

impl SharedPoller {
    pub(super) fn new(listeners: Vec<Listener>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (number, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking()?;
            epoll::add(&epoll, listener, EventData::new_u64(number as u64), ONCE)?;
        }
        let due_event = eventfd(1, EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &due_event, EventData::new_u64(DUE), SILENT)?;
        let state = Mutex::new(State { parked: Parked::new(now_ms()), due: Vec::new() });
        Ok(Self { epoll, listeners, state, first_parked: Condvar::new(), due_event })
    }

    /// Waits for an event, for this long at most.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Event {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut event = [const { MaybeUninit::uninit() }; 1];
        let token = match epoll::wait(&self.epoll, &mut event[..], timeout.as_ref()) {
            Ok((events, _)) => events.first().map(|event| event.data.u64()),
            Err(_) => return Event::Nothing,
        };
        match token {
            None => Event::TimedOut,
            Some(DUE) => self.take_due().map_or(Event::Nothing, Event::Parked),
            Some(token) if token < self.listeners.len() as u64 => Event::Listener(token as usize),
            Some(token) => self.state.lock().parked.take(token).map_or(Event::Nothing, Event::Parked),
        }
    }

    fn take_due(&self) -> Option<Box<Client>> {
        let mut state = self.state.lock();
        let State { parked, due } = &mut *state;
        let client = std::iter::from_fn(|| due.pop()).find_map(|token| parked.take(token));
        if !due.is_empty() {
            self.arm(&self.due_event, DUE);
        }
        client
    }

    /// Accepts a connection, and lets the next thread accept.
    pub(super) fn accept(&self, listener: usize) -> Result<(OwnedFd, Peer), Errno> {
        let accepted = self.listeners[listener].accept(SocketFlags::empty());
        if !matches!(accepted, Err(Errno::INVAL)) {
            self.arm(&self.listeners[listener], listener as u64);
        }
        accepted
    }

    /// Has something reported again that the epoll knows.
    fn arm(&self, what: impl AsFd, token: u64) {
        epoll::modify(&self.epoll, what, EventData::new_u64(token), ONCE)
            .expect("a change of what is known takes no memory");
    }

    /// Parks a connection until its client sends something.
    pub(super) fn park(&self, client: Box<Client>) {
        let deadline_ms = client.connection.deadline_ms();
        let mut state = self.state.lock();
        let is_first = state.parked.is_empty();
        let token = state.parked.park(client, deadline_ms);
        let Some(client) = state.parked.get(token) else { return };
        let data = EventData::new_u64(token);
        let armed = match epoll::modify(&self.epoll, &client.socket, data, ONCE) {
            // It is parked for the first time.
            Err(Errno::NOENT) => epoll::add(&self.epoll, &client.socket, data, ONCE),
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

    /// Takes out the parked connection that has been idle for longest.
    pub(super) fn take_longest_idle(&self, shared: &ServerState) -> Option<Box<Client>> {
        let settings = &shared.server.settings;
        self.state
            .lock()
            .parked
            .take_longest_idle(now_ms(), |client| client.connection.idle_since_ms(settings))
    }

    /// Gives threads the connections whose deadline has passed. While the server drains, all of them. Runs until the
    /// process ends.
    pub(super) fn watch_deadlines(&self, shared: &ServerState) {
        let mut state = self.state.lock();
        loop {
            let State { parked, due } = &mut *state;
            match shared.is_draining() {
                true if due.is_empty() => due.extend(parked.tokens()),
                true => {}
                false => due.append(&mut parked.due(now_ms())),
            }
            if !due.is_empty() {
                self.arm(&self.due_event, DUE);
            }
            if shared.is_draining() {
                self.first_parked.wait_for(&mut state, DRAIN_EVERY);
            } else if state.parked.is_empty() {
                self.first_parked.wait(&mut state);
            } else {
                self.first_parked.wait_for(&mut state, LOOK_EVERY);
            }
        }
    }

    /// Refuses new connections, and gives the parked ones to threads. The server drains already.
    pub(super) fn drain(&self) {
        self.listeners.iter().for_each(Listener::shut);
        // With the lock, because the other thread may be about to wait.
        let _state = self.state.lock();
        self.first_parked.notify_one();
    }
}

fn now_ms() -> u64 {
    server_us(Instant::now()) / 1000
}
