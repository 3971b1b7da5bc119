//! *uring*: the loop and the helpers of [*amped*](crate::amped), on an io_uring. The ring brings requests, and takes
//! responses and closes. Many of them go with the one call that the loop sleeps in.
//!
//! The ring leaves out, on purpose:
//!
//! - Files: it never opens, examines or reads one. On a miss the kernel would use worker threads of its own. Flash's
//!   helpers have a limit, a deadline and metrics.
//! - Long sends: it sends copies of up to 16 KiB. Longer ones leave at once, as from any loop, and large bodies by
//!   verified `sendfile`. The ring only tells when the socket has room again.
//! - Accepts: a multishot accept stays first in the listener's queue, so one of several loops would get every
//!   connection. One poll for each connection lets the loops take turns.
//! - First requests: the loop receives and answers the first request of a connection at once, because it may be the
//!   only one. By the ring, a connection per request cost a tenth more. From the second request on, the ring's sends
//!   cost 2 to 4 % less than direct ones.

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use flash_core::connection::output::{Front, Output};
use flash_observe::metrics::LoopMetrics;
use flash_os::ring::{self, Completion, Outcome, Ring};
use rustix::io::Errno;

use crate::completion_queue::CompletionQueue;
use crate::connections::listener::Listener;
use crate::connections::socket::{self, Received, Sent};
use crate::poller::{Event, Poller, Registered, WakeOn, receive_buffer};

/// Whether this system allows a ring.
///
/// # Errors
/// Why not, for people.
pub fn probe() -> Result<(), String> {
    let refused = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => "forbidden by kernel.io_uring_disabled or a sandbox".into(),
        Some(Errno::NOSYS) => "the kernel has none".into(),
        Some(Errno::INVAL) => "the kernel is older than 6.0".into(),
        _ => error.to_string(),
    };
    Ring::new().map(drop).map_err(refused)
}

/// A poller that is a ring.
pub(crate) struct RingPoller {
    ring: Ring,
    completions: Arc<CompletionQueue>,
    completions_token: u64,
    arrived: Arrived,
    buffer: Box<[u8]>,
}

/// The bytes of the present event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrived {
    Nothing,
    Waiting,
    /// The last receive has returned them.
    Taken,
}

/// What the ring is doing for a connection.
pub(crate) struct SocketState {
    receiving: Receiving,
    sending: Sending,
    /// Whether the ring polls for room to send, from the first time on that a send blocked.
    polling: bool,
    /// The client sends no more.
    ended: bool,
    /// Bytes that came before they were wanted. Boxed, because few connections ever need them.
    #[allow(clippy::box_collection)]
    held: Option<Box<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    No,
    Yes,
    /// It is complete, and the loop has not asked for the result yet.
    Taken(u16),
    Blocked,
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    /// The request may have arrived with the connection, so it is received without the ring.
    First,
    No,
    Yes,
    /// Cancelled, because more came than was wanted.
    Cancelled,
}

/// The most slices that one operation sends.
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
        self.ring.poll(self.completions.waker().as_fd(), self.completions_token, ring::READABLE, true);
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
        if tag == self.completions_token {
            self.completions.waker().reset();
        }
        if tag == self.completions_token && last {
            self.ring.poll(self.completions.waker().as_fd(), tag, ring::READABLE, true);
        }
        Some(Event { token: tag, readiness: Readiness { outcome, last } })
    }

    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // For one connection. Then this loop queues behind the others; a multishot poll would stay first and get all
        // events.
        self.ring.poll(listener.as_fd(), token, ring::READABLE | ring::EXCLUSIVE, false);
        Ok(())
    }

    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        self.listen(listener, token)
    }

    fn ignore(&mut self, _listener: &Listener, token: u64) {
        self.ring.cancel_poll(token);
        // If it fails, the wait of the loop fails as well.
        let _ = self.ring.wait(Some(Duration::ZERO));
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
                    // No buffer was free, or this loop has cancelled it.
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
                // Bytes that arrive before the next wait may still follow, at most as many as the ring has buffers
                // for.
                self.ring.cancel_receive(token);
                socket_state.receiving = Receiving::Cancelled;
            }
        }
        match until {
            WakeOn::Received if matches!(socket_state.receiving, Receiving::First | Receiving::No) => {
                self.ring.receive(socket.as_fd(), token);
                socket_state.receiving = Receiving::Yes;
            }
            // After the client's end of input, only this poll tells that the client is gone.
            WakeOn::Completed | WakeOn::Paced if socket_state.ended && !socket_state.polling => {
                self.ring.poll(socket.as_fd(), token, ring::WRITABLE, true);
                socket_state.polling = true;
            }
            // The completion of the send is the event.
            WakeOn::Writable if !socket_state.polling && socket_state.sending != Sending::Yes => {
                self.ring.poll(socket.as_fd(), token, ring::WRITABLE, true);
                socket_state.polling = true;
            }
            // A cancelled receive begins again after its completion.
            WakeOn::Received
            | WakeOn::Sent
            | WakeOn::Writable
            | WakeOn::Completed
            | WakeOn::Paced
            | WakeOn::NextTurn => {}
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
        // The poll holds the stream open, so it is cancelled first.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel wakes one poll for a connection. A poll that is to be cancelled soon must not be the one.
    #[test]
    fn a_ring_that_ignores_a_listener_takes_no_connection_from_others() {
        if let Err(why) = probe() {
            return eprintln!("NOT TESTED, rings at one listener: {why}");
        }
        let listener = Listener::inet("127.0.0.1:0".parse().unwrap()).unwrap();
        let ring = || {
            let completions = Arc::new(CompletionQueue::new().unwrap());
            let mut poller = RingPoller::new(&completions, 0).unwrap();
            poller.begin().unwrap();
            poller.listen(&listener, 1).unwrap();
            poller.wait(Some(Duration::ZERO)).unwrap();
            poller
        };
        let (mut first, mut other) = (ring(), ring());
        first.ignore(&listener, 1);
        let address = rustix::net::getsockname(&listener).unwrap();
        let address = std::net::SocketAddr::try_from(address).unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        assert!(other.wait(Some(Duration::from_secs(10))).unwrap() > 0, "it learns of the connection");
    }
}
