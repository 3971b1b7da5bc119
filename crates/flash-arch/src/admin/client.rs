//! A client of the admin socket: its one request, and the response or the events that it gets. No call waits for it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::{self, MaybeUninit};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_os::socket::NO_SIGNAL;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

use super::host::Policy;
use super::request::{HEAD_BYTES_MAX, Pending};
use super::response::Response;

/// How long a client may take to send its request, and to take its response or an event.
const PATIENCE: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_millis(500);
const LINGER_READS_MAX: usize = 16;

/// The calls of a `UnixStream` are those of any stream socket.
pub(super) struct AdminClient {
    socket: UnixStream,
    /// Of its listener.
    pub(super) policy: Policy,
    state: ClientState,
    /// When it is given up.
    until: Option<Instant>,
}

enum ClientState {
    /// It has sent this much of its request.
    Asks(Vec<u8>),
    /// What it has asked for is under way.
    Waits(Pending),
    Takes(Unsent),
    /// It gets events until it leaves.
    Watches(Unsent),
    /// It has its response. What is left of its request is read, or the kernel would reset the connection before the client has
    /// the response.
    Lingers,
    Gone,
}

struct Unsent {
    bytes: Vec<u8>,
    /// So many bytes have been sent.
    sent: usize,
    /// Goes with the first bytes.
    descriptor: Option<Arc<OwnedFd>>,
}

impl AdminClient {
    pub(super) fn new(socket: OwnedFd, policy: Policy, now: Instant) -> Self {
        let (socket, until) = (socket.into(), now.checked_add(PATIENCE));
        Self { socket, policy, state: ClientState::Asks(Vec::new()), until }
    }

    pub(super) fn is_watching(&self) -> bool {
        matches!(self.state, ClientState::Watches(_))
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.state, ClientState::Gone)
    }

    /// Whether it waits for a reload.
    pub(super) fn reloads(&self) -> bool {
        matches!(&self.state, ClientState::Waits(pending) if pending.is_reload())
    }

    /// Its request, once it is whole or nothing more comes.
    pub(super) fn request(&mut self) -> Option<Vec<u8>> {
        let ClientState::Asks(head) = &mut self.state else { return None };
        let mut buffer = [0; 4096];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
            match self.socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => head.extend_from_slice(&buffer[..count]),
                Err(error) if would_block(&error) => return None,
                Err(_) => {
                    self.state = ClientState::Gone;
                    return None;
                }
            }
        }
        Some(mem::take(head))
    }

    pub(super) fn wait(&mut self, pending: Pending) {
        (self.state, self.until) = (ClientState::Waits(pending), None);
    }

    pub(super) fn respond(&mut self, response: &Response, now: Instant) {
        let descriptor = response.descriptor.clone();
        self.state = ClientState::Takes(Unsent { bytes: response.bytes(), sent: 0, descriptor });
        self.until = now.checked_add(PATIENCE);
    }

    /// It gets these bytes, and events from now on.
    pub(super) fn watch(&mut self, bytes: Vec<u8>, now: Instant) {
        self.state = ClientState::Watches(Unsent { bytes, sent: 0, descriptor: None });
        self.until = now.checked_add(PATIENCE);
    }

    /// Gives it another event, unless it has not taken the last one.
    pub(super) fn tell(&mut self, event: &str, now: Instant) {
        if matches!(&self.state, ClientState::Watches(unsent) if unsent.bytes.len() == unsent.sent) {
            self.watch(event.into(), now);
        }
    }

    /// Sends what there is room for, and looks whether it has left or is too slow.
    pub(super) fn go_on(&mut self, now: Instant) {
        if let ClientState::Waits(pending) = &mut self.state
            && let Some(response) = pending.response()
        {
            self.respond(&response, now);
        }
        let is_over = match &mut self.state {
            ClientState::Asks(_) | ClientState::Waits(_) => Ok(false),
            ClientState::Takes(unsent) | ClientState::Watches(unsent) => unsent.send(&mut self.socket),
            ClientState::Lingers => self.has_left(),
            ClientState::Gone => return,
        };
        match (is_over, &self.state) {
            (Ok(true), ClientState::Watches(_)) => self.until = None,
            (Ok(true), ClientState::Takes(_)) if self.socket.shutdown(Shutdown::Write).is_ok() => {
                (self.state, self.until) = (ClientState::Lingers, now.checked_add(LINGER));
            }
            (Ok(false), _) if self.until.is_none_or(|until| now < until) => {}
            _ => self.state = ClientState::Gone,
        }
    }

    /// Whether it waits for input, and for room.
    pub(super) fn awaits(&self) -> (bool, bool) {
        match &self.state {
            ClientState::Asks(_) | ClientState::Lingers => (true, false),
            ClientState::Takes(unsent) | ClientState::Watches(unsent) => {
                (false, unsent.sent < unsent.bytes.len())
            }
            ClientState::Waits(_) | ClientState::Gone => (false, false),
        }
    }

    /// Whether it has closed the connection, or sends too much to wait for that.
    fn has_left(&mut self) -> io::Result<bool> {
        for _ in 0..LINGER_READS_MAX {
            match self.socket.read(&mut [0; 4096]) {
                Err(error) if would_block(&error) => return Ok(false),
                Ok(1..) => {}
                ended => return ended.map(|_| true),
            }
        }
        Ok(true)
    }
}

impl Unsent {
    /// Returns whether all has been sent.
    fn send(&mut self, socket: &mut UnixStream) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            let unsent = &self.bytes[self.sent..];
            let sent = match &self.descriptor {
                Some(descriptor) => send_with(socket, unsent, descriptor),
                None => socket.write(unsent),
            };
            match sent {
                Err(error) if would_block(&error) => return Ok(false),
                sent => self.sent += sent?,
            }
            self.descriptor = None;
        }
        Ok(true)
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

fn send_with(client: &UnixStream, bytes: &[u8], descriptor: &OwnedFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut control, descriptors) = (SendAncillaryBuffer::new(&mut space), [descriptor.as_fd()]);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    Ok(sendmsg(client, &[IoSlice::new(bytes)], &mut control, NO_SIGNAL)?)
}

impl AsFd for AdminClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
