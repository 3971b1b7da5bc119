//! Connection permits: one for each connection that may be open at a time. What happens when all are taken is decided in
//! [`admission`](crate::connections::admission).

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flash_core::TransportInfo;

pub(crate) struct ConnectionPermits {
    connections_max: AtomicUsize,
    connections: AtomicUsize,
    waiting_count: AtomicUsize,
}

/// The right to one of the connections that may be open.
pub(crate) struct ConnectionPermit(Arc<ConnectionPermits>);

/// A new connection that found all permits taken.
pub(crate) struct WaitingConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) transport: TransportInfo,
    /// How many loops have been asked for a connection that gives way.
    pub(crate) loops_asked: usize,
    _waiting: Waiting,
}

/// Counts a connection while it waits for a permit.
struct Waiting(Arc<ConnectionPermits>);

/// If more connections wait, they are turned away at once. Each has a descriptor that no permit allows for.
pub(crate) const WAITING_MAX: usize = 64;

impl ConnectionPermits {
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        let (connections, waiting_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { connections_max: connections_max.into(), connections, waiting_count })
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Sets how many connections may be open from now on. Those that are open stay.
    pub(crate) fn set_connections_max(&self, connections_max: usize) {
        self.connections_max.store(connections_max, Ordering::Relaxed);
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn are_taken(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > 0
    }

    /// Whether a connection waits for a permit.
    pub(crate) fn are_wanted(&self) -> bool {
        self.waiting_count.load(Ordering::Relaxed) > 0
    }

    /// Takes a permit, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let more = |count| (count < self.connections_max()).then_some(count + 1);
        self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(ConnectionPermit(Arc::clone(self)))
    }

    /// Counts a connection that waits for a permit. Returns its socket if too many wait.
    pub(crate) fn wait(
        self: &Arc<Self>,
        socket: OwnedFd,
        transport: TransportInfo,
    ) -> Result<WaitingConnection, OwnedFd> {
        let others = self.waiting_count.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(Arc::clone(self));
        if others >= WAITING_MAX {
            return Err(socket);
        }
        Ok(WaitingConnection { socket, transport, loops_asked: 0, _waiting: waiting })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for WaitingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingConnection").field("transport", &self.transport).finish_non_exhaustive()
    }
}
