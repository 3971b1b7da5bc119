//! The address where one process of an application accepts its connections: a Unix socket that no other user can reach.
//!
//! Its name is in a folder that only this user can open. Flash removes the name as soon as the socket is open, so no file is
//! left after a crash. A process with that descriptor can still connect. Every process of the machine could connect to an
//! abstract name or a port, and an application obeys each client.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::address::{Address, Dialed, UnixAddress};

#[derive(Debug)]
pub(super) struct PrivateAddress {
    address: Address,
    /// What the address names.
    _place: OwnedFd,
}

/// One connection at a time comes, and perhaps one more, whose predecessor the process has not let go of.
const BACKLOG: i32 = 4;

impl PrivateAddress {
    /// A new one, and its listening socket. When the last descriptor of the socket is closed, connections are refused.
    pub(super) fn open() -> io::Result<(Self, OwnedFd)> {
        let folder = tempfile::Builder::new().prefix("flash-").tempdir()?;
        let path = folder.path().join("app");
        let flags = SocketFlags::CLOEXEC;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path)?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let slot = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let through = PathBuf::from(format!("/proc/self/fd/{}", slot.as_raw_fd()));
        Ok((Self { address: Address::Unix(UnixAddress::new(&through)?), _place: slot }, listener))
    }

    /// Connects. Nothing is said as yet about whether it will be accepted.
    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        match self.address.dial(0)? {
            Dialed::Connected(stream) => Ok(stream),
            Dialed::InProgress(_) | Dialed::Full => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn it_leads_to_whoever_holds_the_listener_and_to_nobody_else() {
        let ((one, first), (other, second)) =
            (PrivateAddress::open().unwrap(), PrivateAddress::open().unwrap());
        let listener = UnixListener::from(first);
        let stream = one.connect().unwrap();
        let peer = listener.accept().unwrap().0;
        let name = peer.local_addr().unwrap().as_pathname().unwrap().to_owned();
        assert!(!name.exists() && !name.parent().unwrap().exists(), "nothing is left of {}", name.display());
        drop((stream, listener));
        assert!(one.connect().is_err());
        assert!(other.connect().is_ok());
        drop(second);
    }
}
