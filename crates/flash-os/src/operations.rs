//! What a [ring](crate::ring) is asked for, and what it answers.

use std::io;

/// Something happened to an operation.
#[derive(Debug)]
pub struct Completion {
    /// As it was given with the operation.
    pub tag: u64,
    pub outcome: Outcome,
    /// The operation is over: nothing more will be heard of it.
    pub last: bool,
}

#[derive(Debug)]
pub enum Outcome {
    /// So many bytes have come, which [`Ring::received`](crate::ring::Ring::received) shows. None at the end of the stream.
    Received(io::Result<usize>),
    /// So many bytes were taken, or none for now (`EAGAIN`).
    Sent(io::Result<u16>),
    /// What of a poll's events holds, and errors besides.
    Polled(io::Result<u32>),
}

/// Events to poll for, as in poll(2).
pub const READABLE: u32 = libc::POLLIN as u32;
pub const WRITABLE: u32 = libc::POLLOUT as u32;
/// Among several rings that poll for the same, one is told.
pub const EXCLUSIVE: u32 = 1 << 28;
/// The other side is closed.
pub const BROKEN: u32 = (libc::POLLERR | libc::POLLHUP) as u32;

/// Tags are smaller than this.
pub const TAG_MAX: u64 = 1 << 62;
