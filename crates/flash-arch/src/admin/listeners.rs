//! The listeners at which administrators reach a server. What is answered there is [`admin`](crate::admin)'s.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::site::hosts::HostName;

use crate::connections::listener::Listener;

/// Where administrators reach a server.
#[derive(Default)]
pub struct AdminListeners {
    /// For all that they ask.
    pub socket: Option<Listener>,
    /// At an address, where they only read.
    pub read_only: Option<Listener>,
    /// Names under which they are reached, besides the usual ones.
    pub hosts: Arc<[HostName]>,
    /// The place of the upgrader's own socket, for administrators who name another program.
    pub upgrader: Option<OwnedFd>,
}

impl AdminListeners {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Listener> {
        self.socket.iter().chain(&self.read_only)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let clone = |listener: &Option<Listener>| listener.as_ref().map(Listener::try_clone).transpose();
        let hosts = Arc::clone(&self.hosts);
        let upgrader = self.upgrader.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Self { socket: clone(&self.socket)?, read_only: clone(&self.read_only)?, hosts, upgrader })
    }
}
