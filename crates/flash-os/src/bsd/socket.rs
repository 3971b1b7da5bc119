//! Sockets and pipes: FreeBSD knows the flags that Linux knows, macOS none.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::SocketAddr;

use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket,
    socketpair,
};

use crate::posix::socket::own;
use crate::socket_kind::{Peer, Waits};

#[cfg(not(target_vendor = "apple"))]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_vendor = "apple"))]
pub(crate) const OWN_DESCRIPTORS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(target_vendor = "apple")]
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();
#[cfg(target_vendor = "apple")]
pub(crate) const OWN_DESCRIPTORS: RecvFlags = RecvFlags::empty();
pub(crate) const MORE: SendFlags = SendFlags::empty();

pub(crate) fn new(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
    waits: Waits,
) -> Result<OwnedFd> {
    let made = socket(family, kind, protocol)?;
    own(&made, waits)?;
    Ok(made)
}

pub(crate) fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    let (near, far) = socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None)?;
    own(&near, Waits::Yes)?;
    own(&far, Waits::Yes)?;
    Ok((near, far))
}

pub(crate) fn pipe(waits: Waits) -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    own(&read, waits)?;
    own(&write, waits)?;
    Ok((read, write))
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn accept(
    listener: BorrowedFd<'_>,
    waits: Waits,
) -> Result<(OwnedFd, Option<rustix::net::SocketAddrAny>)> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, waits == Waits::No);
    rustix::net::acceptfrom_with(listener, flags)
}

#[cfg(target_vendor = "apple")]
pub(crate) use crate::posix::socket::accept;

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn is_listening(socket: BorrowedFd<'_>) -> Result<bool> {
    rustix::net::sockopt::socket_acceptconn(socket)
}

#[cfg(target_vendor = "apple")]
pub(crate) fn is_listening(socket: BorrowedFd<'_>) -> Result<bool> {
    let mut listens: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let (number, place) = (socket.as_raw_fd(), (&raw mut listens).cast());
    // SAFETY: the kernel writes at most as many bytes as one number has.
    match unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, place, &raw mut bytes) } {
        0 => Ok(listens != 0),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

pub(crate) fn name_without_file(_address: &SocketAddrUnix) -> Option<&[u8]> {
    None
}

pub(crate) fn address_without_file(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn peer(connection: BorrowedFd<'_>) -> Result<Peer> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: the kernel writes one number into each.
    match unsafe { libc::getpeereid(connection.as_raw_fd(), &mut user, &mut group) } {
        0 => Ok(Peer { user, process: None }),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
