//! accept(2), which knows no flags: they are set afterwards. A program that is started meanwhile inherits the socket.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, Result, fcntl_setfd, ioctl_fionbio};
use rustix::net::{SocketAddrAny, acceptfrom};

use crate::socket_kind::Waits;

pub(crate) fn accept(listener: BorrowedFd<'_>, waits: Waits) -> Result<(OwnedFd, Option<SocketAddrAny>)> {
    let (socket, address) = acceptfrom(listener)?;
    own(&socket, waits)?;
    Ok((socket, address))
}

/// Gives a new descriptor its flags. Some systems give it the listener's.
pub(crate) fn own(descriptor: &OwnedFd, waits: Waits) -> Result<()> {
    fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    ioctl_fionbio(descriptor, waits == Waits::No)
}
