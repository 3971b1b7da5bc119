//! The poller of readiness: epoll, or what takes its place. The kernel reports as edges which sockets can be read or written, and the
//! loop makes the calls.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flash_core::connection::output::Output;
use flash_observe::metrics::LoopMetrics;
use flash_os::poller::{self, Interest, Ready};

use crate::completion_queue::CompletionQueue;
use crate::connections::listener::Listener;
use crate::connections::socket::{self, Received, Sent};
use crate::poller::registration::register;
use crate::poller::{Event, Poller, Registered, WakeOn, receive_buffer};

pub(crate) struct ReadinessPoller {
    poller: poller::Poller,
    events: Vec<poller::Event>,
    next: usize,
    buffer: Box<[u8]>,
}

pub(crate) struct SocketState {
    registered: Registered,
    /// Whether a read may find bytes.
    readable: bool,
    /// The client has shut its side, so reads go on until they see the end.
    hung_up: bool,
    /// Both directions are shut.
    gone: bool,
}

const EVENTS_MAX: usize = 256;

impl Poller for ReadinessPoller {
    type SocketState = SocketState;
    type Readiness = Ready;

    fn new(completions: &Arc<CompletionQueue>, token: u64) -> io::Result<Self> {
        let poller = poller::Poller::new()?;
        poller.add_waker(completions.waker(), token)?;
        let buffer = receive_buffer();
        Ok(Self { poller, events: Vec::with_capacity(EVENTS_MAX), next: 0, buffer })
    }

    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.next = 0;
        self.poller.wait(&mut self.events, timeout)?;
        Ok(self.events.len())
    }

    fn next(&mut self) -> Option<Event<Ready>> {
        let &poller::Event { token, ready } = self.events.get(self.next)?;
        self.next += 1;
        Some(Event { token, readiness: ready })
    }

    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // Exclusive: one connection wakes one loop.
        self.poller.add(listener, token, Interest::INPUT.exclusive())?;
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
        if self.poller.delete(listener).is_ok() {
            listener.loops.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn socket_state() -> SocketState {
        // The request may have arrived with the connection.
        SocketState { registered: Registered::No, readable: true, hung_up: false, gone: false }
    }

    fn note(&mut self, socket_state: &mut SocketState, readiness: Ready) -> bool {
        socket_state.readable |= readiness.may_be_read();
        socket_state.hung_up |= readiness.has_ended();
        socket_state.gone |= readiness.is_gone();
        !readiness.is_gone()
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
            WakeOn::Received | WakeOn::Sent | WakeOn::Completed | WakeOn::Paced => Registered::Bytes,
            WakeOn::Writable => Registered::Room,
            WakeOn::NextTurn => return Ok(()),
        };
        register(&self.poller, &mut socket_state.registered, needed, socket, token)?;
        match socket_state.gone {
            true => Ok(()),
            false => {
                let room = needed == Registered::Room;
                Ok(self.poller.rearm(socket, token, !socket_state.readable, room)?)
            }
        }
    }

    fn watch(&mut self, stream: &OwnedFd, token: u64, needed: Registered) -> io::Result<()> {
        register(&self.poller, &mut { Registered::No }, needed, stream, token)
    }

    fn rearm(&mut self, stream: &OwnedFd, token: u64, bytes: bool, room: bool) -> io::Result<()> {
        Ok(self.poller.rearm_wanted(stream, token, bytes, room)?)
    }

    fn goes_on(_: &Ready) -> bool {
        true
    }

    fn forget(&mut self, stream: &OwnedFd, _token: u64) {
        // A stream that is not registered any more needs no deletion.
        let _ = self.poller.delete(stream);
    }

    fn close(&mut self, _socket_state: SocketState, socket: OwnedFd, _token: u64) {
        self.poller.disarm(&socket);
    }
}
