//! Sockets: bytes in, and a connection's output out.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use flash_core::connection::output::{Front, Output};
use flash_core::file::Content;
use flash_core::{Connection, Context};
use flash_observe::metrics::LoopMetrics;
use flash_os::send_file;
use flash_os::socket::{MORE, NO_SIGNAL};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};

use crate::blocking_call;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes(usize),
    /// The client sends no more.
    End,
    Blocked,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Bytes(u64),
    Blocked,
    /// The client has left, or the file ended too early.
    Broken,
}

/// The most slices that one call sends. Eight frames of HTTP/2 take as many, each with its header.
pub(crate) const SLICES_MAX: usize = 16;
/// A head waits in the kernel for a body up to this size. For larger bodies a saved packet means nothing, and on
/// loopback the wait doubles their cost.
const CORK_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    receive_with(socket, buffer, RecvFlags::empty())
}

/// Receives from an upstream's stream, without waiting.
pub(crate) fn receive_now(stream: &OwnedFd, buffer: &mut [u8]) -> Received {
    receive_with(stream, buffer, RecvFlags::DONTWAIT)
}

fn receive_with(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> Received {
    loop {
        match net::recv(socket, &mut *buffer, flags) {
            Ok((0, _)) => return Received::End,
            Ok((count, _)) => return Received::Bytes(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Received::Blocked,
            Err(_) => return Received::Gone,
        }
    }
}

/// Sends to an upstream's stream, without waiting.
pub(crate) fn send_now(stream: &OwnedFd, bytes: &[u8]) -> Sent {
    loop {
        match net::send(stream, bytes, NO_SIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => return Sent::Bytes(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(_) => return Sent::Broken,
        }
    }
}

/// Sends the front of the output. A thread that must not sleep on the file passes its `metrics`, which count sleeps.
pub(crate) fn send(socket: &OwnedFd, output: &Output, metrics: Option<&LoopMetrics>) -> Sent {
    loop {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let result = match output.front(&mut slices) {
            Front::Nothing => return Sent::Bytes(0),
            Front::Slices { count, more } => send_slices(socket, &slices[..count], more),
            Front::File(file, range) => {
                let Content::Open(open) = &file.content else { return Sent::Broken };
                let length = (range.end - range.start) as usize;
                let send = || match open.send_mapped(&file.stamp, socket.as_fd(), &range) {
                    Some(sent) => sent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                    None => send_file::send(socket, open.as_fd(), range.start, length),
                };
                let blocking_call = || ("sendfile", blocking_call::path_of(file));
                match metrics.map_or_else(send, |metrics| metrics.watch_blocking(send, blocking_call)) {
                    Ok(0) => return Sent::Broken,
                    result => result,
                }
            }
        };
        match result {
            Ok(count) => return Sent::Bytes(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(_) => return Sent::Broken,
        }
    }
}

/// Tells a connection that its deadline has passed. The same for every architecture.
pub(crate) fn expire(connection: &mut Connection, socket: &OwnedFd, cx: &mut Context<'_>) {
    connection.expire(cx, || unacknowledged(socket));
}

/// How many sent bytes the client has not acknowledged.
pub(crate) fn unacknowledged(socket: &OwnedFd) -> u64 {
    // If the kernel does not tell, all bytes count as acknowledged.
    flash_os::tcp::bytes_unacked(socket).unwrap_or_default()
}

/// Has calls on a socket that block end after these times.
pub(crate) fn set_timeouts(socket: &OwnedFd, receive: Duration, send: Duration) -> rustix::io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(receive))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(send))
}

/// Makes the close drop unsent bytes and reset the connection.
pub(crate) fn reset(socket: &OwnedFd) {
    // If it fails, the kernel goes on sending.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

fn send_slices(socket: &OwnedFd, slices: &[IoSlice<'_>], more: u64) -> Result<usize, Errno> {
    let mut flags = NO_SIGNAL;
    if (1..=CORK_BYTES_MAX).contains(&more) {
        // The file's first bytes leave in the same packet.
        flags |= MORE;
    }
    match slices {
        [slice] => net::send(socket, slice, flags),
        slices => net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags),
    }
}
