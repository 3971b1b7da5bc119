//! The poller on epoll. The kernel reports as edges which sockets can be read or written, and the loop makes the
//! calls.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flash_core::connection::output::Output;
use flash_observe::metrics::LoopMetrics;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags as Flag};
use rustix::io::Errno;

use crate::completion_queue::CompletionQueue;
use crate::connections::listener::Listener;
use crate::connections::socket::{self, Received, Sent};
use crate::poller::epoll_registration::register;
use crate::poller::{Event, Poller, Registered, WakeOn, receive_buffer};

pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// Tokens and flags of the kernel's events. The kernel's own form cannot move to another thread.
    events: Vec<(u64, Flag)>,
    next: usize,
    buffer: Box<[u8]>,
}

pub(crate) struct SocketState {
    registered: Registered,
    /// Whether a read may find bytes.
    readable: bool,
    /// The client has shut its side, so reads go on until they see the end.
    hung_up: bool,
}

const EVENTS_MAX: usize = 256;

impl Poller for Epoll {
    type SocketState = SocketState;
    type Readiness = Flag;

    fn new(completions: &Arc<CompletionQueue>, token: u64) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, completions.eventfd(), EventData::new_u64(token), Flag::IN | Flag::ET)?;
        let buffer = receive_buffer();
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX), next: 0, buffer })
    }

    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        self.next = 0;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((events, _)) => {
                self.events.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
                Ok(self.events.len())
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn next(&mut self) -> Option<Event<Flag>> {
        let &(token, readiness) = self.events.get(self.next)?;
        self.next += 1;
        Some(Event { token, readiness })
    }

    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // Exclusive: one connection wakes one loop.
        let flags = Flag::IN | Flag::EXCLUSIVE;
        epoll::add(&self.epoll, listener.as_fd(), EventData::new_u64(token), flags)?;
        listener.loops.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // The listener is level-triggered, so it is reported until no connection waits. The kernel wakes the first
        // loop in its list. This loop goes to the end, or it would get nearly all connections.
        if listener.loops.load(Ordering::Relaxed) == 1 {
            return Ok(());
        }
        self.ignore(listener, token);
        self.listen(listener, token)
    }

    fn ignore(&mut self, listener: &Listener, _token: u64) {
        if epoll::delete(&self.epoll, listener.as_fd()).is_ok() {
            listener.loops.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn socket_state() -> SocketState {
        // The request may have arrived with the connection.
        SocketState { registered: Registered::No, readable: true, hung_up: false }
    }

    fn note(&mut self, socket_state: &mut SocketState, readiness: Flag) -> bool {
        socket_state.readable |= readiness.intersects(Flag::IN | Flag::RDHUP | Flag::HUP | Flag::ERR);
        socket_state.hung_up |= readiness.intersects(Flag::RDHUP | Flag::HUP);
        !readiness.intersects(Flag::ERR | Flag::HUP)
    }

    fn receive(&mut self, socket_state: &mut SocketState, socket: &OwnedFd) -> Received {
        if !socket_state.readable {
            return Received::Blocked;
        }
        let received = socket::receive(socket, &mut self.buffer);
        match received {
            // A short read has emptied the socket. Later bytes are a new event.
            Received::Bytes(count) => {
                socket_state.readable = count == self.buffer.len() || socket_state.hung_up
            }
            Received::Blocked => socket_state.readable = false,
            Received::End | Received::Gone => {}
        }
        received
    }

    fn received(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    fn send(
        &mut self,
        _socket_state: &mut SocketState,
        socket: &OwnedFd,
        _token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent> {
        Some(socket::send(socket, output, Some(metrics)))
    }

    fn settle(
        &mut self,
        socket_state: &mut SocketState,
        socket: &OwnedFd,
        token: u64,
        until: WakeOn,
    ) -> io::Result<()> {
        let needed = match until {
            WakeOn::Received | WakeOn::Sent | WakeOn::Completed => Registered::Bytes,
            WakeOn::Writable => Registered::Room,
            WakeOn::NextTurn => return Ok(()),
        };
        register(&self.epoll, &mut socket_state.registered, needed, socket, token)
    }

    fn watch(&mut self, stream: &OwnedFd, token: u64, needed: Registered) -> io::Result<()> {
        register(&self.epoll, &mut { Registered::No }, needed, stream, token)
    }

    fn goes_on(_: &Flag) -> bool {
        true
    }

    fn forget(&mut self, stream: &OwnedFd, _token: u64) {
        // A stream that is not registered any more needs no deletion.
        let _ = epoll::delete(&self.epoll, stream);
    }

    fn close(&mut self, _socket_state: SocketState, socket: OwnedFd, _token: u64) {
        // Closing removes it from the epoll too.
        drop(socket);
    }
}
