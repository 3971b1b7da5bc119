//! Sockets and pipes that no program inherits. What makes them so is not the same call everywhere.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::SocketAddr;

use rustix::io::Result;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketType};

use crate::posix;
pub use crate::socket_kind::{Peer, Waits};
use crate::system;
use crate::system_calls::{Call, has};

/// A send to a peer that is gone is an error, and no signal. Where sends know no such flag, the process ignores the signal anyway.
pub const NO_SIGNAL: SendFlags = system::socket::NO_SIGNAL;
/// More follows at once, so the kernel may wait for a whole packet, where it can.
pub const MORE: SendFlags = system::socket::MORE;
/// No program inherits the descriptors that are received, where that can be told at once.
pub const OWN_DESCRIPTORS: RecvFlags = system::socket::OWN_DESCRIPTORS;

/// # Errors
/// Those of socket(2).
pub fn new(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
    waits: Waits,
) -> Result<OwnedFd> {
    system::socket::new(family, kind, protocol, waits)
}

/// Two Unix sockets that are connected to each other.
///
/// # Errors
/// When the process cannot have two descriptors more.
pub fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    system::socket::pair(kind)
}

/// The end to read, and the end to write.
///
/// # Errors
/// When the process cannot have two descriptors more.
pub fn pipe(waits: Waits) -> Result<(OwnedFd, OwnedFd)> {
    system::socket::pipe(waits)
}

/// Accepts a connection. A Unix socket's may have no address.
///
/// # Errors
/// Those of accept(2).
#[inline]
pub fn accept(listener: impl AsFd, waits: Waits) -> Result<(OwnedFd, Option<SocketAddrAny>)> {
    match has(Call::Accept4) {
        true => system::socket::accept(listener.as_fd(), waits),
        false => posix::socket::accept(listener.as_fd(), waits),
    }
}

/// Whether a process has begun to listen at it.
///
/// # Errors
/// For anything but a socket.
pub fn is_listening(socket: impl AsFd) -> Result<bool> {
    system::socket::is_listening(socket.as_fd())
}

/// The name of a Unix socket that is in no folder.
pub fn name_without_file(address: &SocketAddrUnix) -> Option<&[u8]> {
    system::socket::name_without_file(address)
}

/// The address of a Unix socket whose name is in no folder.
///
/// # Errors
/// If the name is too long, or the system has no such names.
pub fn address_without_file(name: &[u8]) -> io::Result<SocketAddr> {
    system::socket::address_without_file(name)
}

/// # Errors
/// For anything but a connected Unix socket.
pub fn peer(connection: impl AsFd) -> Result<Peer> {
    system::socket::peer(connection.as_fd())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use rustix::io::{Errno, FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn what_is_accepted_is_no_programs_and_waits_as_it_is_told() {
        type Accept = fn(std::os::fd::BorrowedFd<'_>, Waits) -> Result<(OwnedFd, Option<SocketAddrAny>)>;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        for accept in [system::socket::accept as Accept, posix::socket::accept] {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, address) = accept(listener.as_fd(), Waits::No).unwrap();
            assert_eq!(address.unwrap(), client.local_addr().unwrap().into());
            assert!(fcntl_getfd(&socket).unwrap().contains(FdFlags::CLOEXEC));
            assert_eq!(rustix::io::read(&socket, &mut [0; 1]), Err(Errno::AGAIN));
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            listener.set_nonblocking(true).unwrap();
            let (socket, _) = accept(listener.as_fd(), Waits::Yes).unwrap();
            assert_eq!(rustix::io::read(&socket, &mut [0; 1]), Ok(0), "it has waited");
            assert_eq!(accept(listener.as_fd(), Waits::Yes).unwrap_err(), Errno::AGAIN);
            listener.set_nonblocking(false).unwrap();
            client.write_all(b"x").unwrap();
        }
    }

    #[test]
    fn a_peer_is_known_by_its_user() {
        let (near, _far) = pair(SocketType::STREAM).unwrap();
        assert_eq!(peer(&near).unwrap().user, rustix::process::geteuid().as_raw());
    }
}
