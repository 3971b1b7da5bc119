//! `dup3`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Puts something else in the place of a descriptor. No program inherits it.
pub(crate) fn put(other: BorrowedFd<'_>, place: &OwnedFd) -> io::Result<()> {
    // SAFETY: both numbers are open. The second one stays open, so its owner goes on owning it; no memory is involved.
    match unsafe { libc::dup3(other.as_raw_fd(), place.as_raw_fd(), libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
