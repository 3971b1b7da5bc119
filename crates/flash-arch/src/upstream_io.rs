//! I/O with upstreams: the wants that every driver performs in the same way, because an upstream's stream is never
//! waited for. Each driver keeps the streams in its own way.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::upstream::{Arriving, OpenError, Opened};
use flash_core::{Connection, Context, Direction, ExchangeId, Want};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, getsockname, shutdown};

use crate::completion_queue::{Completion, CompletionQueue};
use crate::connections::socket::{self, Received, Sent};
use crate::driver::Served;
use crate::poller::receive_buffer;

/// What a loop or worker needs to talk to upstreams.
#[derive(Default)]
pub(crate) struct UpstreamIo {
    /// Empty until the first upstream is opened.
    buffer: Box<[u8]>,
}

impl UpstreamIo {
    /// Performs a want about an exchange's upstream, whose stream is `stream`. If it is to be opened, returns its stream. A
    /// result that is not there at once comes to `completions` under `token`, for [`tell_opened`].
    pub(crate) fn perform(
        &mut self,
        want: &Want,
        served: Served<'_, '_>,
        stream: Option<&OwnedFd>,
        (completions, token): (&Arc<CompletionQueue>, u64),
    ) -> Option<OwnedFd> {
        if let Want::OpenUpstream(id) = *want {
            return self.open(id, served, Arc::clone(completions), token);
        }
        let Served { connection, cx, .. } = served;
        let Some(stream) = stream else {
            connection.abort(cx);
            return None;
        };
        match *want {
            Want::SendUpstream(id) => match socket::send_now(stream, connection.to_upstream(id)) {
                Sent::Bytes(count) => connection.upstream_sent(id, count as usize, cx),
                Sent::Blocked => connection.upstream_blocked(id, Direction::Out, cx),
                Sent::Broken => connection.upstream_refuses(id, cx),
            },
            Want::ReceiveUpstream(id) => {
                let most = connection.piece_bytes(id).unwrap_or(1).min(self.buffer.len());
                match socket::receive_now(stream, &mut self.buffer[..most]) {
                    // A short read says nothing: the end may follow, and is reported only once.
                    Received::Bytes(count) => connection.upstream_received(id, &self.buffer[..count], cx),
                    Received::Blocked => connection.upstream_blocked(id, Direction::In, cx),
                    Received::End => connection.upstream_ended(id, cx),
                    Received::Gone => connection.upstream_broke(id, cx),
                }
            }
            Want::ShutdownUpstream(id) => {
                // If it fails, the upstream is gone, and the next read will show that.
                let _ = shutdown(stream, Shutdown::Write);
                connection.upstream_shut(id);
            }
            _ => {}
        }
        None
    }

    fn open(
        &mut self,
        id: ExchangeId,
        Served { connection, socket, cx, .. }: Served<'_, '_>,
        completions: Arc<CompletionQueue>,
        token: u64,
    ) -> Option<OwnedFd> {
        let local = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        let mut begin = connection.begin(id, local, cx)?;
        if let Some(direct) = &mut begin.direct {
            // The program decides how long it waits for its client.
            let _ = set_socket_timeout(socket, Timeout::Send, None);
            direct.socket = socket.try_clone().ok();
        }
        if self.buffer.is_empty() {
            self.buffer = receive_buffer();
        }
        let reply = move |opened: Opened| completions.push(token, Completion::Opened(id, opened.into()));
        let opened = match begin.upstreams.take() {
            Some(upstreams) => upstreams.begin(begin, Box::new(reply)),
            None => Some(Opened::Failed(OpenError::Broken)),
        };
        tell_opened(connection, id, opened?.into(), cx)
    }
}

/// Whether a want takes as long as a loop has for a connection's turn: it has a piece compressed.
pub(crate) fn takes_long(want: &Want, connection: &Connection) -> bool {
    matches!(want, Want::ReceiveUpstream(id) if connection.takes_long(*id))
}

/// Tells an exchange whether its upstream has opened. Returns the exchange's stream.
pub(crate) fn tell_opened(
    connection: &mut Connection,
    id: ExchangeId,
    opened: Arriving,
    cx: &mut Context<'_>,
) -> Option<OwnedFd> {
    if !connection.awaits_upstream(id) {
        // Too late. Dropping the result ends the program.
        return None;
    }
    let (stream, opened) = opened.take()?.split();
    let is_taken = connection.begun(id, opened, cx);
    stream.filter(|_| is_taken)
}

#[cfg(test)]
mod tests;
