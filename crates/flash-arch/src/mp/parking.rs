//! The idle connections of mp. The parent holds them, because a worker process is busy with one connection at a time.
//!
//! A worker sends a connection that has become idle to the parent. It sends the socket, and the few bytes that another process
//! needs to go on with it. When the client sends something, or the deadline passes, the parent puts the connection into a queue.
//! The next idle worker takes it from there. The parent reads nothing from clients.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flash_core::clients::Clients;
use flash_core::{Evictable, IdleState};
use flash_os::poller::{Event, Interest, Poller};
use flash_process::ipc::{self, Received};
use rustix::event::PollFd;
use rustix::io::Errno;

use crate::clock::server_us;
use crate::connections::parked::Parked;
use crate::fair_queue::ClientNetwork;

pub(super) struct Parking {
    poller: Poller,
    events: Vec<Event>,
    from_workers: OwnedFd,
    to_workers: OwnedFd,
    ends: Rc<WorkerEnds>,
    parked: Parked<ParkedConnection>,
    /// Connections that `to_workers` had no room for.
    ready: VecDeque<ParkedConnection>,
    /// Whether the poller tells when `to_workers` has room.
    awaits_room: bool,
    /// When the next turn is to come in any case.
    due: Option<Instant>,
    buffer: [u8; MESSAGE_BYTES],
    /// Where connections are counted.
    clients: Clients,
}

/// A worker's ends of the sockets to and from the parent. All workers share them.
pub(super) struct WorkerEnds {
    pub(super) to_parent: OwnedFd,
    /// Connections to go on with.
    pub(super) ready: OwnedFd,
}

struct ParkedConnection {
    socket: OwnedFd,
    state: IdleState,
    since_ms: u64,
}

/// More than any message takes.
pub(super) const MESSAGE_BYTES: usize = 64;
/// What a worker says when it was the last idle one.
pub(super) const SHORT: &[u8] = b"short";
const FROM_WORKERS: u64 = 0;
const TO_WORKERS: u64 = 1;
const TICK: Duration = Duration::from_millis(250);
const EVENTS_MAX: usize = 256;

impl Parking {
    pub(super) fn new(clients: Clients) -> io::Result<Self> {
        let (from_workers, to_parent) = ipc::pair()?;
        let (to_workers, ready) = ipc::pair()?;
        let poller = Poller::new()?;
        poller.add(&from_workers, FROM_WORKERS, Interest::INPUT)?;
        poller.add(&to_workers, TO_WORKERS, Interest::NONE)?;
        Ok(Self {
            poller,
            events: Vec::with_capacity(EVENTS_MAX),
            from_workers,
            to_workers,
            ends: Rc::new(WorkerEnds { to_parent, ready }),
            parked: Parked::new(now_ms()),
            ready: VecDeque::new(),
            awaits_room: false,
            due: None,
            buffer: [0; MESSAGE_BYTES],
            clients,
        })
    }

    pub(super) fn ends(&self) -> Rc<WorkerEnds> {
        Rc::clone(&self.ends)
    }

    /// What tells when there is work for [`Parking::turn`].
    pub(super) fn polled(&self) -> Vec<PollFd<'_>> {
        self.poller.polled()
    }

    /// When there is work without an event.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How many connections are idle, or wait for a worker.
    pub(super) fn len(&self) -> usize {
        self.parked.len() + self.ready.len()
    }

    /// Parks what workers have sent, and passes on what is ready. `idle_max` is how many connections may be idle. `keep_ticking`
    /// has the next turn come within a tick in any case. Returns whether a worker was the last idle one.
    pub(super) fn turn(&mut self, idle_max: usize, keep_ticking: bool) -> bool {
        let mut is_short = false;
        let mut events = mem::take(&mut self.events);
        // If it fails, the next turn tries again.
        let _ = self.poller.wait(&mut events, Some(Duration::ZERO));
        for event in &events {
            match event.token {
                FROM_WORKERS => is_short |= self.receive(),
                TO_WORKERS => {}
                token => self.unpark(token),
            }
        }
        self.events = events;
        for token in self.parked.due(now_ms()) {
            self.unpark(token);
        }
        while self.len() > idle_max {
            let look = |idle: &ParkedConnection| {
                (Some(Evictable::Idle(idle.since_ms)), ClientNetwork::of(idle.state.peer()))
            };
            match self.parked.take_victim(now_ms(), look) {
                Some(idle) => {
                    self.poller.disarm(&idle.socket);
                    self.close(&idle.state);
                }
                None => break,
            }
        }
        self.pass_on();
        self.due = (keep_ticking || !self.parked.is_empty()).then(|| Instant::now() + TICK);
        is_short
    }

    /// Receives what workers have sent. Returns whether one was the last idle worker.
    fn receive(&mut self) -> bool {
        let mut is_short = false;
        for _ in 0..EVENTS_MAX {
            let Ok(Received::Message(message)) = ipc::try_receive(&self.from_workers, &mut self.buffer)
            else {
                break;
            };
            is_short |= *message.bytes == *SHORT;
            let (state, socket) = (IdleState::of(&message.bytes), message.descriptors.into_iter().next());
            match (state, socket) {
                (Some(state), Some(socket)) => {
                    self.park(ParkedConnection { socket, state, since_ms: now_ms() })
                }
                // Without room for its descriptor, the connection closes.
                (Some(state), None) => self.close(&state),
                (None, _) => {}
            }
        }
        is_short
    }

    fn park(&mut self, idle: ParkedConnection) {
        let deadline_ms = idle.state.deadline_ms();
        let token = self.parked.park(idle, deadline_ms);
        let Some(idle) = self.parked.get(token) else { return };
        if self.poller.add(&idle.socket, token, Interest::INPUT.once()).is_err()
            && let Some(idle) = self.parked.take(token)
        {
            self.close(&idle.state);
        }
    }

    /// The connection of this state ends here, and counts no more.
    fn close(&self, state: &IdleState) {
        drop(state.counted(&self.clients));
    }

    /// Queues a connection for the workers. One whose deadline has passed is closed by a worker, too.
    fn unpark(&mut self, token: u64) {
        let Some(idle) = self.parked.take(token) else { return };
        // A worker will have a descriptor of the same socket, so a close would not end the watch.
        let _ = self.poller.delete(&idle.socket);
        self.ready.push_back(idle);
    }

    /// Sends queued connections to the workers, as far as there is room.
    fn pass_on(&mut self) {
        while let Some(idle) = self.ready.front() {
            match ipc::try_send(&self.to_workers, idle.state.bytes(), &[idle.socket.as_fd()]) {
                Err(Errno::AGAIN) => break,
                Ok(()) => drop(self.ready.pop_front()),
                // Other errors are those of a socket that nobody could serve.
                Err(_) => {
                    let state = idle.state;
                    self.ready.pop_front();
                    self.close(&state);
                }
            }
        }
        if self.awaits_room == self.ready.is_empty() {
            self.awaits_room = !self.awaits_room;
            let interest = Interest::new(false, self.awaits_room);
            let _ = self.poller.modify(&self.to_workers, TO_WORKERS, interest);
        }
    }
}

fn now_ms() -> u64 {
    server_us(Instant::now()) / 1000
}
