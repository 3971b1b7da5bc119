//! *uring*: the loop and the helpers of [*amped*](crate::amped), on a ring shared with the kernel. Requests arrive on
//! it, and answers and closes leave by it, many in the one call that the loop also sleeps in.
//!
//! What the ring does not do, on purpose:
//!
//! - It never opens, examines or reads a file. On a miss the kernel would hand that to worker threads of its own, which
//!   are helpers by another name. Ours have a bound, a deadline and a place in the metrics.
//! - It sends copies of up to 16 KiB. What is longer leaves as from any loop, at once, and large bodies by verified
//!   `sendfile`; the ring only says when the socket takes bytes again.
//! - It does not accept. An accept that repeats stays in front of the listener's queue, so that the first of several
//!   loops would get every connection; one poll for each arrival lets them take turns.
//! - It has no part in a connection's first request, which is received and answered at once, because it may be the only
//!   one: by the ring, a connection per request cost a tenth more. From the second on, the ring's sends cost 2 to 4 %
//!   less than direct ones.

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use flash_core::output::{Front, Output};
use flash_observe::metrics::LoopMetrics;
use flash_os::ring::{self, Completion, Outcome, Ring};
use rustix::io::Errno;

use crate::completion_queue::CompletionQueue;
use crate::listener::Listener;
use crate::poller::{Event, Poller, Registered, WakeOn, receive_buffer};
use crate::socket::{self, Received, Sent};

/// Why there can be no ring here, if so.
///
/// # Errors
/// The reason, for people.
pub fn probe() -> Result<(), String> {
    Ring::new().map(drop).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => "forbidden by kernel.io_uring_disabled or a sandbox".into(),
        Some(Errno::NOSYS) => "the kernel has none".into(),
        Some(Errno::INVAL) => "the kernel is older than 6.0".into(),
        _ => error.to_string(),
    })
}

/// A poller that is a ring.
pub(crate) struct RingPoller {
    ring: Ring,
    completions: Arc<CompletionQueue>,
    completions_token: u64,
    arrived: Arrived,
    buffer: Box<[u8]>,
}

/// Bytes that the event under way has brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrived {
    Nothing,
    Waiting,
    /// They are what was last received.
    Taken,
}

/// What the ring is doing for a connection.
pub(crate) struct SocketState {
    receiving: Receiving,
    sending: Sending,
    /// Whether it can be written, from the first time on that it could not.
    polling: bool,
    /// The client sends no more.
    ended: bool,
    /// Bytes that came when they were not wanted. In a box, because hardly any connection ever needs the room.
    #[allow(clippy::box_collection)]
    held: Option<Box<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    No,
    Yes,
    /// It is over, and nobody has asked for the outcome yet.
    Taken(u16),
    Blocked,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    /// Its request may have come along with it: looked for without the ring.
    First,
    No,
    Yes,
    /// More has come than was wanted.
    Cancelled,
}

/// How many pieces leave in one operation.
const SLICES_MAX: usize = 8;

impl Poller for RingPoller {
    type SocketState = SocketState;
    type Readiness = Readiness;

    fn new(completions: &Arc<CompletionQueue>, token: u64) -> io::Result<Self> {
        let buffer = receive_buffer();
        let completions = Arc::clone(completions);
        Ok(Self {
            ring: Ring::new()?,
            completions,
            completions_token: token,
            arrived: Arrived::Nothing,
            buffer,
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        self.ring.begin()?;
        self.ring.poll(self.completions.eventfd().as_fd(), self.completions_token, ring::READABLE, true);
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.ring.wait(timeout)
    }

    fn next(&mut self) -> Option<Event<Readiness>> {
        self.arrived = Arrived::Nothing;
        let Completion { tag, outcome, last } = self.ring.next_completion()?;
        if matches!(outcome, Outcome::Received(Ok(1..))) {
            self.arrived = Arrived::Waiting;
        }
        if tag == self.completions_token && last {
            self.ring.poll(self.completions.eventfd().as_fd(), tag, ring::READABLE, true);
        }
        Some(Event { token: tag, readiness: Readiness { outcome, last } })
    }

    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // For one arrival, after which this loop queues behind the others: a poll that repeats would stay in front,
        // and be told of all of them.
        self.ring.poll(listener.as_fd(), token, ring::READABLE | ring::EXCLUSIVE, false);
        Ok(())
    }

    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        self.listen(listener, token)
    }

    fn ignore(&mut self, _listener: &Listener, token: u64) {
        self.ring.cancel_poll(token);
    }

    fn socket_state() -> SocketState {
        SocketState {
            receiving: Receiving::First,
            sending: Sending::No,
            polling: false,
            ended: false,
            held: None,
        }
    }

    fn note(&mut self, socket_state: &mut SocketState, Readiness { outcome, last }: Readiness) -> bool {
        match outcome {
            Outcome::Polled(events) => {
                socket_state.polling = !last;
                events.is_ok_and(|events| events & ring::BROKEN == 0)
            }
            Outcome::Sent(result) => {
                socket_state.sending = match result {
                    Ok(count) => Sending::Taken(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sending::Blocked,
                    Err(_) => Sending::Broken,
                };
                true
            }
            Outcome::Received(result) => {
                if last {
                    socket_state.receiving = Receiving::No;
                }
                match result.map_err(|error| Errno::from_io_error(&error)) {
                    Ok(count) => socket_state.ended = count == 0,
                    // There was no buffer for a moment, or it was we who cancelled.
                    Err(Some(Errno::NOBUFS | Errno::CANCELED | Errno::INTR)) => {}
                    Err(_) => return false,
                }
                true
            }
        }
    }

    fn receive(&mut self, socket_state: &mut SocketState, socket: &OwnedFd) -> Received {
        if let Some(held) = &mut socket_state.held {
            let count = held.len().min(self.buffer.len());
            self.buffer[..count].copy_from_slice(&held[..count]);
            held.drain(..count);
            if held.is_empty() {
                socket_state.held = None;
            }
            return Received::Bytes(count);
        }
        if self.arrived == Arrived::Waiting {
            self.arrived = Arrived::Taken;
            return Received::Bytes(self.ring.received().len());
        }
        if socket_state.ended {
            return Received::End;
        }
        if socket_state.receiving != Receiving::First {
            return Received::Blocked;
        }
        let received = socket::receive(socket, &mut self.buffer);
        match received {
            Received::Bytes(count) if count == self.buffer.len() => {}
            _ => socket_state.receiving = Receiving::No,
        }
        socket_state.ended = received == Received::End;
        received
    }

    fn received(&self, count: usize) -> &[u8] {
        match self.arrived {
            Arrived::Taken => self.ring.received(),
            Arrived::Nothing | Arrived::Waiting => &self.buffer[..count],
        }
    }

    fn send(
        &mut self,
        socket_state: &mut SocketState,
        socket: &OwnedFd,
        token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent> {
        if socket_state.sending == Sending::Yes {
            return None;
        }
        match mem::replace(&mut socket_state.sending, Sending::No) {
            Sending::Taken(count) => return Some(Sent::Bytes(count.into())),
            Sending::Blocked => return Some(Sent::Blocked),
            Sending::Broken => return Some(Sent::Broken),
            Sending::Yes | Sending::No => {}
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        if socket_state.receiving == Receiving::Yes
            && let Front::Slices { count, more: 0 } = output.front(&mut slices)
            && self.ring.send(socket.as_fd(), token, &slices[..count])
        {
            socket_state.sending = Sending::Yes;
            return None;
        }
        Some(socket::send(socket, output, Some(metrics)))
    }

    fn settle(
        &mut self,
        socket_state: &mut SocketState,
        socket: &OwnedFd,
        token: u64,
        until: WakeOn,
    ) -> io::Result<()> {
        if self.arrived == Arrived::Waiting {
            self.arrived = Arrived::Nothing;
            socket_state.held.get_or_insert_default().extend_from_slice(self.ring.received());
            if socket_state.receiving == Receiving::Yes {
                // What has come by the next wait may still follow, and no more than the ring has buffers for.
                self.ring.cancel_receive(token);
                socket_state.receiving = Receiving::Cancelled;
            }
        }
        match until {
            WakeOn::Received if matches!(socket_state.receiving, Receiving::First | Receiving::No) => {
                self.ring.receive(socket.as_fd(), token);
                socket_state.receiving = Receiving::Yes;
            }
            // Of a client that sends no more, nothing else would say that it is gone.
            WakeOn::Completed if socket_state.ended && !socket_state.polling => {
                self.ring.poll(socket.as_fd(), token, ring::WRITABLE, true);
                socket_state.polling = true;
            }
            // A send that is under way says so itself.
            WakeOn::Writable if !socket_state.polling && socket_state.sending != Sending::Yes => {
                self.ring.poll(socket.as_fd(), token, ring::WRITABLE, true);
                socket_state.polling = true;
            }
            // A receive that was cancelled begins again when its end is heard of.
            WakeOn::Received | WakeOn::Sent | WakeOn::Writable | WakeOn::Completed | WakeOn::NextTurn => {}
        }
        Ok(())
    }

    fn watch(&mut self, stream: &OwnedFd, token: u64, registered: Registered) -> io::Result<()> {
        let room = if registered == Registered::Room { ring::WRITABLE } else { 0 };
        self.ring.poll(stream.as_fd(), token, ring::READABLE | room, true);
        Ok(())
    }

    fn goes_on(readiness: &Readiness) -> bool {
        !readiness.last
    }

    fn forget(&mut self, _: &OwnedFd, token: u64) {
        // The poll holds on to the stream, which would not be closed before.
        self.ring.cancel_poll(token);
    }

    fn close(&mut self, socket_state: SocketState, socket: OwnedFd, token: u64) {
        if socket_state.receiving == Receiving::Yes {
            self.ring.cancel_receive(token);
        }
        if socket_state.polling {
            self.ring.cancel_poll(token);
        }
        self.ring.close(socket);
    }
}

pub(crate) struct Readiness {
    outcome: Outcome,
    last: bool,
}
