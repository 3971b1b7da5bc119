//! The idle connections of mp. The parent holds them, because a worker process is busy with one connection at a time.
//!
//! A worker sends a connection that has become idle to the parent. It sends the socket, and the few bytes that another process
//! needs to go on with it. When the client sends something, or the deadline passes, the parent puts the connection into a queue.
//! The next idle worker takes it from there. The parent reads nothing from clients.

use std::collections::VecDeque;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flash_core::clients::Clients;
use flash_core::{Evictable, IdleState};
use flash_process::ipc::{self, Received};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags as Flag};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::clock::server_us;
use crate::connections::parked::Parked;
use crate::fair_queue::ClientNetwork;

pub(super) struct Parking {
    epoll: OwnedFd,
    from_workers: OwnedFd,
    to_workers: OwnedFd,
    ends: Rc<WorkerEnds>,
    parked: Parked<ParkedConnection>,
    /// Connections that `to_workers` had no room for.
    ready: VecDeque<ParkedConnection>,
    /// Whether the epoll tells when `to_workers` has room.
    awaits_room: bool,
    /// Readable every [`TICK`], while it is set.
    timer: OwnedFd,
    ticks: bool,
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
const TIMER: u64 = 2;
const TICK: Duration = Duration::from_millis(250);
const EVENTS_MAX: usize = 256;
const CLIENT: Flag = Flag::IN.union(Flag::RDHUP).union(Flag::ONESHOT);

impl Parking {
    pub(super) fn new(clients: Clients) -> io::Result<Self> {
        let (from_workers, to_parent) = ipc::pair()?;
        let (to_workers, ready) = ipc::pair()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, &from_workers, EventData::new_u64(FROM_WORKERS), Flag::IN)?;
        epoll::add(&epoll, &to_workers, EventData::new_u64(TO_WORKERS), Flag::empty())?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), Flag::IN)?;
        Ok(Self {
            epoll,
            from_workers,
            to_workers,
            ends: Rc::new(WorkerEnds { to_parent, ready }),
            parked: Parked::new(now_ms()),
            ready: VecDeque::new(),
            awaits_room: false,
            timer,
            ticks: false,
            buffer: [0; MESSAGE_BYTES],
            clients,
        })
    }

    pub(super) fn ends(&self) -> Rc<WorkerEnds> {
        Rc::clone(&self.ends)
    }

    /// Readable when there is work for [`Parking::turn`].
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// How many connections are idle, or wait for a worker.
    pub(super) fn len(&self) -> usize {
        self.parked.len() + self.ready.len()
    }

    /// Parks what workers have sent, and passes on what is ready. `idle_max` is how many connections may be idle. `keep_ticking`
    /// has the next turn come within a tick in any case. Returns whether a worker was the last idle one.
    pub(super) fn turn(&mut self, idle_max: usize, keep_ticking: bool) -> bool {
        let mut is_short = false;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = match epoll::wait(&self.epoll, &mut events[..], Some(&at_once)) {
            Ok((events, _)) => &*events,
            Err(_) => &[],
        };
        for event in events {
            match event.data.u64() {
                FROM_WORKERS => is_short |= self.receive(),
                TO_WORKERS => {}
                TIMER => {
                    let _ = rustix::io::read(&self.timer, &mut self.buffer);
                }
                token => self.unpark(token),
            }
        }
        for token in self.parked.due(now_ms()) {
            self.unpark(token);
        }
        while self.len() > idle_max {
            let look = |idle: &ParkedConnection| {
                (Some(Evictable::Idle(idle.since_ms)), ClientNetwork::of(idle.state.peer()))
            };
            match self.parked.take_victim(now_ms(), look) {
                Some(idle) => self.close(&idle.state),
                None => break,
            }
        }
        self.pass_on();
        self.tick(keep_ticking || !self.parked.is_empty());
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
        if epoll::add(&self.epoll, &idle.socket, EventData::new_u64(token), CLIENT).is_err()
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
        let _ = epoll::delete(&self.epoll, &idle.socket);
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
            let flags = if self.awaits_room { Flag::OUT } else { Flag::empty() };
            let _ = epoll::modify(&self.epoll, &self.to_workers, EventData::new_u64(TO_WORKERS), flags);
        }
    }

    /// Sets the timer, or ends it.
    fn tick(&mut self, ticks: bool) {
        if mem::replace(&mut self.ticks, ticks) != ticks {
            let interval = if ticks { TICK } else { Duration::ZERO };
            let every = Timespec { tv_sec: 0, tv_nsec: interval.subsec_nanos().into() };
            let setting = Itimerspec { it_interval: every, it_value: every };
            // It fails only for what is no timer.
            let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
        }
    }
}

fn now_ms() -> u64 {
    server_us(Instant::now()) / 1000
}
