//! What the BSDs tell of a connection.

use std::io;
#[cfg(target_os = "freebsd")]
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;

/// A connection wakes its server before its first bytes have come.
pub(crate) fn defer_accept(_listener: BorrowedFd<'_>, _seconds: i32) {}

/// Nobody counts them.
pub(crate) fn bytes_acked(_connection: BorrowedFd<'_>) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "freebsd")]
pub(crate) fn bytes_unacked(connection: BorrowedFd<'_>) -> io::Result<u64> {
    let mut queued: libc::c_int = 0;
    // SAFETY: the kernel writes one number into `queued`.
    let result = unsafe { libc::ioctl(connection.as_raw_fd(), libc::FIONWRITE, &mut queued) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(queued.unsigned_abs().into()) }
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) fn bytes_unacked(_connection: BorrowedFd<'_>) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}
