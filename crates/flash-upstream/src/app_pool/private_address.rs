//! The address where one process of an application accepts its connections: a [socket without a name](private_socket), which no
//! other user can reach. An application obeys each client.

use std::io;
use std::os::fd::OwnedFd;

use flash_process::private_socket;
use rustix::net::SocketType;

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
        let (listener, place) = private_socket::listen(SocketType::STREAM, BACKLOG)?;
        let address = Address::Unix(UnixAddress::new(&private_socket::path(&place))?);
        Ok((Self { address, _place: place }, listener))
    }

    /// Connects. Nothing is said as yet about whether it will be accepted.
    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        match self.address.dial(0)? {
            Dialed::Connected(stream) => Ok(stream),
            Dialed::InProgress(_) | Dialed::Full => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
