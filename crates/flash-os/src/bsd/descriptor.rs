//! `dup2`, which knows no flags: a program that is started meanwhile inherits the descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// Puts something else in the place of a descriptor.
pub(crate) fn put(other: BorrowedFd<'_>, place: &OwnedFd) -> io::Result<()> {
    // SAFETY: both numbers are open. The second one stays open, so its owner goes on owning it; no memory is involved.
    match unsafe { libc::dup2(other.as_raw_fd(), place.as_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(fcntl_setfd(place, FdFlags::CLOEXEC)?),
    }
}
