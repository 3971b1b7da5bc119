//! Flags of the calls that make sockets and pipes, and who is at the other end.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use rustix::io::Result;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
    acceptfrom_with, socket_with, socketpair, sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::socket_kind::{Peer, Waits};

pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
pub(crate) const MORE: SendFlags = SendFlags::MORE;
pub(crate) const OWN_DESCRIPTORS: RecvFlags = RecvFlags::CMSG_CLOEXEC;

pub(crate) fn new(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
    waits: Waits,
) -> Result<OwnedFd> {
    socket_with(family, kind, flags(waits), protocol)
}

pub(crate) fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

pub(crate) fn pipe(waits: Waits) -> Result<(OwnedFd, OwnedFd)> {
    let mut flags = PipeFlags::CLOEXEC;
    flags.set(PipeFlags::NONBLOCK, waits == Waits::No);
    pipe_with(flags)
}

#[inline]
pub(crate) fn accept(listener: BorrowedFd<'_>, waits: Waits) -> Result<(OwnedFd, Option<SocketAddrAny>)> {
    acceptfrom_with(listener, flags(waits))
}

pub(crate) fn is_listening(socket: BorrowedFd<'_>) -> Result<bool> {
    sockopt::socket_acceptconn(socket)
}

pub(crate) fn name_without_file(address: &SocketAddrUnix) -> Option<&[u8]> {
    address.abstract_name()
}

pub(crate) fn address_without_file(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

pub(crate) fn peer(connection: BorrowedFd<'_>) -> Result<Peer> {
    let peer = sockopt::socket_peercred(connection)?;
    Ok(Peer { user: peer.uid.as_raw(), process: Some(peer.pid.as_raw_nonzero().get()) })
}

fn flags(waits: Waits) -> SocketFlags {
    match waits {
        Waits::Yes => SocketFlags::CLOEXEC,
        Waits::No => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    }
}
