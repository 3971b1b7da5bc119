//! The listeners at which administrators reach a server. What is answered there is [`admin`](crate::admin)'s.

use std::io;

use crate::listener::Listener;

/// Where administrators reach a server.
#[derive(Default)]
pub struct AdminListeners {
    /// For all that they ask.
    pub socket: Option<Listener>,
    /// At an address, where they only read.
    pub read_only: Option<Listener>,
}

impl AdminListeners {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Listener> {
        self.socket.iter().chain(&self.read_only)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let clone = |listener: &Option<Listener>| listener.as_ref().map(Listener::try_clone).transpose();
        Ok(Self { socket: clone(&self.socket)?, read_only: clone(&self.read_only)? })
    }
}
