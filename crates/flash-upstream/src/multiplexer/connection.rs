//! A connection to a server of HTTP/2: its socket, its TLS, its frames, and which exchange has which stream.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_core::upstream::UpstreamSession;
use flash_h2::{Client, ClientLimits, ErrorCode};
use flash_os::poller::Interest;
use flash_os::socket::NO_SIGNAL;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::origin::{Made, Origin};

pub(super) struct Connection {
    pub(super) origin: Arc<dyn Origin>,
    pub(super) stream: OwnedFd,
    tls: Option<Box<dyn UpstreamSession>>,
    pub(super) client: Client,
    /// Frames that are about to be sealed.
    plain: Vec<u8>,
    /// Bytes for the server, sealed, of which so many are sent.
    pub(super) out: Vec<u8>,
    sent: usize,
    pub(super) interest: Interest,
    /// The exchanges, by their streams.
    pub(super) streams: HashMap<u32, u64>,
    /// When its last stream ended, or when it was made.
    idle_since: Instant,
    pub(super) retired: Option<Retired>,
    /// Not for one exchange alone.
    pub(super) is_shared: bool,
    /// A request was sent over it.
    pub(super) has_served: bool,
    pub(super) has_answered: bool,
    /// When a request was sent, if nothing has come since.
    pub(super) asked_at: Option<Instant>,
}

/// Why it takes no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retired {
    /// The server may be gone.
    Silent,
    /// It leads to a former address.
    Moved,
}

/// What a server may have sent of a response that its reader has not taken.
const WINDOW_BYTES: u32 = 256 << 10;
/// More requests than this share no connection, whatever the server allows.
const STREAMS_MAX: usize = 128;
/// Requests' bodies wait while this much is on its way.
const BACKLOG_BYTES: usize = 256 << 10;
/// Bytes that are sent take up this much memory at most, or as much as what follows them.
const SENT_BYTES_MAX: usize = 64 << 10;
/// A server that has said nothing for so long, and whose request was given up, may be gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long it is kept without a request.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Frames without use: at once, and each second.
const IDLE_FRAMES: (u32, u32) = (2_000, 200);

impl Connection {
    pub(super) fn new(origin: Arc<dyn Origin>, (stream, tls): Made) -> Self {
        let limits = ClientLimits {
            window_bytes: Some(WINDOW_BYTES),
            block_bytes_max: WINDOW_BYTES as usize / 4,
            idle_frames: IDLE_FRAMES,
        };
        Self {
            origin,
            stream,
            tls,
            client: Client::new(limits),
            plain: Vec::new(),
            out: Vec::new(),
            sent: 0,
            interest: Interest::INPUT,
            streams: HashMap::new(),
            idle_since: Instant::now(),
            retired: None,
            is_shared: true,
            has_served: false,
            has_answered: false,
            asked_at: None,
        }
    }

    /// Whether one more request may leave. How many may, the server has to say first: a request that it refuses has lost its body.
    pub(super) fn has_room(&self) -> bool {
        self.retired.is_none()
            && self.has_settings()
            && self.streams.len() < STREAMS_MAX
            && self.client.can_open()
    }

    /// Whether it serves any request, now or once it has room.
    pub(super) fn is_open(&self) -> bool {
        self.is_shared && self.retired.is_none() && !self.client.is_draining()
    }

    /// Whether it is one of those of which a server has a limited number. Those that are only kept for the requests that they have, after
    /// the server has closed them or has moved, keep no other from being made.
    pub(super) fn is_counted(&self) -> bool {
        self.is_shared && self.retired != Some(Retired::Moved) && !self.client.is_draining()
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        let is_used_up = !self.is_shared && self.has_served;
        self.streams.is_empty() && (self.retired.is_some() || is_used_up || self.client.is_draining())
    }

    /// Whether the server has said that it allows no request, before any was sent.
    pub(super) fn allows_nothing(&self) -> bool {
        self.has_settings() && !self.has_served && !self.client.can_open()
    }

    pub(super) fn has_settings(&self) -> bool {
        self.client.has_settings()
    }

    /// When it ends, unless something comes: its server has said nothing for as long as a connection may take, or it is idle.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        match self.has_settings() {
            false => Some(self.idle_since + self.origin.connect_time()),
            true => self.streams.is_empty().then(|| self.idle_since + IDLE_MAX),
        }
    }

    /// Whether so much waits for the server that bodies have to wait.
    pub(super) fn has_backlog(&self) -> bool {
        self.out.len() - self.sent >= BACKLOG_BYTES
    }

    /// Has the frames sent that this writes.
    pub(super) fn put<T>(&mut self, write: impl FnOnce(&mut Client, &mut Vec<u8>) -> T) -> T {
        let Some(tls) = &mut self.tls else { return write(&mut self.client, &mut self.out) };
        let written = write(&mut self.client, &mut self.plain);
        if !self.plain.is_empty() {
            tls.seal(&self.plain, &mut self.out);
            self.plain.clear();
        }
        written
    }

    /// Sends what it can. Returns what to wait for, or `None` if the connection is broken.
    pub(super) fn flush(&mut self) -> Option<Interest> {
        self.put(|client, out| client.take_control(out));
        while self.sent < self.out.len() {
            match rustix::net::send(&self.stream, &self.out[self.sent..], NO_SIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                // A server that does not read is not read either: what it says is answered. A long upload may never find the socket empty.
                Err(Errno::AGAIN) => {
                    self.forget_sent();
                    return Some(if self.has_backlog() { Interest::ROOM } else { Interest::BOTH });
                }
                Err(_) => return None,
            }
        }
        self.out.clear();
        self.sent = 0;
        Some(Interest::INPUT)
    }

    fn forget_sent(&mut self) {
        if self.sent > SENT_BYTES_MAX {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Reads what has come, by way of these buffers.
    ///
    /// # Errors
    /// The connection has ended; with a reason, if its TLS says so.
    pub(super) fn receive<'b>(
        &mut self,
        buffer: &'b mut [u8],
        plain: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], Option<String>> {
        let count = match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(None),
            Ok((_, count)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(&[]),
            Err(_) => return Err(None),
        };
        self.asked_at = None;
        let bytes = &buffer[..count];
        let Some(tls) = &mut self.tls else { return Ok(bytes) };
        // The end of its TLS is followed by that of its connection.
        tls.open(bytes, plain, &mut self.out).map_err(|why| Some(why.to_owned()))?;
        Ok(plain)
    }

    /// A response is complete. What the request still has is of no use.
    pub(super) fn finish(&mut self, stream: u32, is_sent: bool) {
        self.leave(stream);
        if !is_sent {
            self.client.reset(stream, ErrorCode::CANCEL);
        }
    }

    /// Its request was given up.
    pub(super) fn cancel(&mut self, stream: u32, now: Instant) {
        if self.asked_at.is_some_and(|at| now >= at + SILENCE_MAX) {
            self.retired.get_or_insert(Retired::Silent);
        }
        self.finish(stream, false);
    }

    fn leave(&mut self, stream: u32) {
        self.streams.remove(&stream);
        if self.streams.is_empty() {
            self.idle_since = Instant::now();
        }
    }
}
