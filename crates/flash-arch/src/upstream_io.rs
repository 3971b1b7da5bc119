//! Talking to programs: those wants that every driver performs in the same way, because a program's stream is never waited
//! for. The streams themselves each driver keeps in its own way.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::program::{Begun, Programs, Refusal, Reply};
use flash_core::{Connection, Context, ExchangeId, Want, Way};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, getsockname, shutdown};

use crate::poller::receive_buffer;
use crate::server_state::ServerState;
use crate::socket::{self, Received, Sent};

/// What a loop or worker needs to talk to upstreams.
pub(crate) struct UpstreamIo {
    programs: Option<Arc<dyn Programs>>,
    /// Empty where there are no programs.
    buffer: Box<[u8]>,
}

impl UpstreamIo {
    pub(crate) fn new(shared: &ServerState) -> Self {
        let programs = shared.programs.clone();
        let buffer = if programs.is_some() { receive_buffer() } else { Box::default() };
        Self { programs, buffer }
    }

    /// Performs [`Want::Begin`]. What is not known at once comes by `reply`, for [`tell_begun`]. Returns the stream that the
    /// exchange has from now on.
    pub(crate) fn begin(
        &self,
        connection: &mut Connection,
        id: ExchangeId,
        socket: &OwnedFd,
        cx: &mut Context<'_>,
        reply: Reply,
    ) -> Option<OwnedFd> {
        let local = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        let mut begin = connection.begin(id, local, cx)?;
        if let Some(direct) = &mut begin.direct {
            // The program waits for its client as long as it likes.
            let _ = set_socket_timeout(socket, Timeout::Send, None);
            direct.socket = socket.try_clone().ok();
        }
        let begun = match &self.programs {
            Some(programs) => programs.begin(begin, reply),
            None => Some(Begun::Failed(Refusal::Broken)),
        };
        tell_begun(connection, id, begun?, cx)
    }

    /// Performs [`Want::SendBackend`], [`Want::ReceiveBackend`] or [`Want::ShutdownBackend`] on the exchange's stream.
    pub(crate) fn perform(
        &mut self,
        want: &Want,
        connection: &mut Connection,
        stream: Option<&OwnedFd>,
        cx: &mut Context<'_>,
    ) {
        let Some(stream) = stream else { return connection.abort(cx) };
        match *want {
            Want::SendBackend(id) => match socket::send_now(stream, connection.to_backend(id)) {
                Sent::Bytes(count) => connection.backend_sent(id, count as usize, cx),
                Sent::Blocked => connection.backend_blocked(id, Way::Out),
                Sent::Broken => connection.backend_refuses(id, cx),
            },
            Want::ReceiveBackend(id) => match socket::receive_now(stream, &mut self.buffer) {
                // However little it was: behind it may be the end, of which nobody hears twice.
                Received::Bytes(count) => connection.backend_received(id, &self.buffer[..count], cx),
                Received::Blocked => connection.backend_blocked(id, Way::In),
                Received::End | Received::Gone => connection.backend_ended(id, cx),
            },
            Want::ShutdownBackend(id) => {
                // Where that fails the program is gone, which reading will show.
                let _ = shutdown(stream, Shutdown::Write);
                connection.backend_shut(id);
            }
            _ => {}
        }
    }
}

/// Tells an exchange what became of its program. Returns the stream that it has from now on.
pub(crate) fn tell_begun(
    connection: &mut Connection,
    id: ExchangeId,
    begun: Begun,
    cx: &mut Context<'_>,
) -> Option<OwnedFd> {
    let (stream, begun) = begun.split();
    let is_taken = connection.begun(id, begun, cx);
    stream.filter(|_| is_taken)
}

#[cfg(test)]
mod tests;
