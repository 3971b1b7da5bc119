//! A request and its response, between the request path's end of a pair of sockets and a stream of a connection.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use flash_os::poller::Interest;
use flash_os::socket::NO_SIGNAL;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::connection::Connection;
use super::origin::Origin;
use super::request::Request;
use super::response::Response;

pub(super) struct Exchange {
    pub(super) origin: Arc<dyn Origin>,
    pub(super) stream: OwnedFd,
    pub(super) interest: Interest,
    pub(super) request: Request,
    pub(super) response: Response,
    pub(super) place: Place,
    /// The connection that it has for itself.
    pub(super) own: Option<u64>,
    /// The request is sent to its end.
    pub(super) is_sent: bool,
    /// Bytes of its body are sent.
    has_sent_body: bool,
    pub(super) has_answer: bool,
    /// How many connections have refused it, or have ended with it.
    refusals: u8,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The request's head has not come.
    Head,
    /// No connection has room.
    Waiting,
    On {
        connection: u64,
        stream: u32,
    },
}

/// What is read of a request ahead of its server.
const AHEAD_BYTES_MAX: usize = 64 << 10;
const REFUSALS_MAX: u8 = 2;

impl Exchange {
    pub(super) fn new(origin: Arc<dyn Origin>, stream: OwnedFd) -> Self {
        Self {
            origin,
            stream,
            interest: Interest::INPUT,
            request: Request::default(),
            response: Response::default(),
            place: Place::Head,
            own: None,
            is_sent: false,
            has_sent_body: false,
            has_answer: false,
            refusals: 0,
        }
    }

    /// Whether a server that has refused it, or is gone, has left it whole. It waits for another stream then.
    pub(super) fn may_move(&mut self) -> bool {
        self.refusals += 1;
        let may = !self.has_sent_body && !self.has_answer && self.refusals <= REFUSALS_MAX;
        if may {
            (self.place, self.is_sent) = (Place::Waiting, false);
        }
        may
    }

    /// Whether no more of the request is read for now.
    fn is_full(&self) -> bool {
        self.request.body.len() >= AHEAD_BYTES_MAX
    }

    pub(super) fn wanted(&self) -> Interest {
        Interest::new(!self.is_full(), !self.response.unwritten().is_empty())
    }

    /// Reads what has come of the request. `None` if the request path is gone.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<()> {
        while !self.is_full() {
            match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return None,
                Ok((_, count)) => self.request.take(&buffer[..count])?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return None,
            }
        }
        Some(())
    }

    /// Gives the request a stream.
    pub(super) fn open(&mut self, number: u64, connection: &mut Connection, token: u64) {
        let (scheme, ends) = (self.origin.scheme(), self.request.ends_with_head());
        let request = &self.request;
        let stream =
            connection.put(|client, out| client.open_alone(|block| request.fields(scheme, block), ends, out));
        connection.streams.insert(stream, token);
        (self.place, self.is_sent) = (Place::On { connection: number, stream }, ends);
        connection.asked_at.get_or_insert_with(Instant::now);
        connection.has_served = true;
    }

    /// Sends as much of the body as there are windows for.
    pub(super) fn send_body(&mut self, connection: &mut Connection, stream: u32) {
        let mut at = 0;
        while !self.is_sent && !connection.has_backlog() {
            let rest = &self.request.body[at..];
            let is_whole = self.request.is_complete();
            let is_last = is_whole && !self.request.has_trailers();
            let count = connection.put(|client, out| client.send_data(stream, rest, is_last, out));
            at += count;
            self.has_sent_body |= count > 0;
            let is_empty = at == self.request.body.len();
            if is_empty && is_whole {
                self.is_sent = true;
                if !is_last {
                    let trailers = self.request.trailers();
                    connection.put(|client, out| client.send_trailers(stream, &trailers, out));
                }
            }
            if count == 0 || is_empty {
                break;
            }
        }
        self.request.body.drain(..at);
    }

    /// Writes what the request path has room for. Returns whether it is there.
    pub(super) fn write(&mut self) -> bool {
        let response = &mut self.response;
        while !response.unwritten().is_empty() {
            match rustix::net::send(&self.stream, response.unwritten(), NO_SIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => response.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        response.out.clear();
        response.written = 0;
        true
    }
}
