//! A pipe of which neither end waits, and that no program inherits.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};

/// The end to read, and the end to write. In a process that forks at the same moment, the child may have them too.
pub(crate) fn non_blocking() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    for end in [&read, &write] {
        fcntl_setfd(end, FdFlags::CLOEXEC)?;
        ioctl_fionbio(end, true)?;
    }
    Ok((read, write))
}
