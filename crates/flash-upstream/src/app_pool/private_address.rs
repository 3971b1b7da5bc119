//! The address where one process of an application accepts its connections: a [socket without a name](private_socket), which no
//! other user can reach. An application obeys each client.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_process::{Reporter, private_socket};
use rustix::net::SocketType;

use crate::address::{Address, UnixAddress};
use crate::connecting::Attempt;
use crate::connector::{self, Connector};

#[derive(Debug)]
pub(super) struct PrivateAddress {
    address: Arc<Address>,
    /// What the address names.
    place: OwnedFd,
}

impl PrivateAddress {
    /// A new one, and its listening socket. When the last descriptor of the socket is closed, connections are refused. May block.
    pub(super) fn open(connector: Option<&Connector>, reporter: &Reporter) -> io::Result<(Self, OwnedFd)> {
        let (listener, place) = match connector {
            Some(connector) => connector.listen(reporter)?,
            None => private_socket::listen(SocketType::STREAM, connector::BACKLOG)?,
        };
        let address = Arc::new(Address::Unix(UnixAddress::new(&private_socket::path(&place))?));
        Ok((Self { address, place }, listener))
    }

    /// Connects, unless a connector has to. Nothing is said as yet about whether it will be accepted. Never blocks.
    pub(super) fn connect_now(&self, connector: Option<&Connector>) -> Option<Attempt> {
        connector.is_none().then(|| Attempt::begin(&self.address, 0))
    }

    /// The same with a connector. May block.
    pub(super) fn connect(&self, connector: Option<&Connector>, reporter: &Reporter) -> Attempt {
        match connector {
            Some(connector) => Attempt::by_connector(connector.connect_to_place(&self.place, reporter)),
            None => Attempt::begin(&self.address, 0),
        }
    }
}
