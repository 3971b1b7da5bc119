//! Sockets: bytes in, and a connection's output out.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use flash_core::file::Content;
use flash_core::output::{Front, Output};
use flash_core::{Connection, Context};
use flash_observe::metrics::LoopMetrics;
use rustix::fs::sendfile;
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
    /// The client left, or the file ended before the bytes that were promised.
    Broken,
}

/// How many pieces leave in one call.
const SLICES_MAX: usize = 8;
/// A head waits for file bytes up to this many. For more of them one packet saved is nothing, and over loopback waiting
/// doubles what a large file costs.
const CORK_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    receive_with(socket, buffer, RecvFlags::empty())
}

/// Receives from a program's stream, which is never waited for.
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

/// Sends to a program's stream.
pub(crate) fn send_now(stream: &OwnedFd, bytes: &[u8]) -> Sent {
    loop {
        match net::send(stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => return Sent::Bytes(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Blocked,
            Err(_) => return Sent::Broken,
        }
    }
}

/// Sends what is in front. An account is given by those who must not sleep on the file.
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
                    None => sendfile(socket, open.as_fd(), Some(&mut range.start.clone()), length),
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

/// Ends a connection's wait whose deadline has passed. The same for every architecture.
pub(crate) fn expire(connection: &mut Connection, socket: &OwnedFd, cx: &mut Context<'_>) {
    // What cannot be told counts as acknowledged.
    connection.expire(cx, || flash_os::tcp::bytes_unacked(socket).unwrap_or_default());
}

/// When the socket is closed, the kernel forgets what it still has for the client, and tells it so.
pub(crate) fn reset(socket: &OwnedFd) {
    // Where that fails, the kernel goes on for as long as it likes.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

fn send_slices(socket: &OwnedFd, slices: &[IoSlice<'_>], more: u64) -> Result<usize, Errno> {
    let mut flags = SendFlags::NOSIGNAL;
    if (1..=CORK_BYTES_MAX).contains(&more) {
        // The file's first bytes shall leave in the same packet.
        flags |= SendFlags::MORE;
    }
    match slices {
        [slice] => net::send(socket, slice, flags),
        slices => net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), flags),
    }
}
