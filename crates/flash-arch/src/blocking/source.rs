//! Where a blocking worker takes connections from, and where it leaves those that wait for their clients.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use flash_core::job::{Job, Outcome};
use flash_core::{Connection, Evictable, TransportInfo};
use rustix::io::Errno;

use crate::connections::permit::ConnectionPermit;
use crate::connections::transport::Transport;
use crate::server_state::ServerState;

/// A client's connection, and all that belongs to it while it waits for its client.
pub(crate) struct ServedClient {
    pub(crate) connection: Connection,
    pub(crate) transport: Transport,
    pub(crate) socket: OwnedFd,
    pub(crate) permit: ConnectionPermit,
}

/// Where a worker takes connections from, and leaves those that wait for their clients.
pub(crate) trait Source {
    /// Waits for a connection. Returns `None` if the worker is to end.
    fn next(&mut self) -> Option<Arrival>;

    /// Whether the worker may wait a moment for its client, because others are left for the next connection.
    fn may_wait(&self) -> bool;

    /// Does a job, which may wait for the disk.
    fn run(&self, shared: &ServerState, job: &Job) -> Outcome {
        shared.run(job)
    }

    /// Whether the worker is to park its connection after the present request, because others serve with a newer configuration.
    fn is_retired(&self) -> bool {
        false
    }

    /// Readable once the worker is retired. `None` if it is, or never will be.
    fn retirement(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Notes that the worker waits for the next request of its connection, or has stopped to wait for it.
    fn awaits_request(&mut self, _awaits: bool) {}

    /// Takes a step of a handshake when a processor is left for it. Returns whether it was taken: `patience` may pass before.
    fn take_step(&self, patience: Duration, step: &mut dyn FnMut()) -> bool;

    /// The worker is to wait for the check of a log-in. Returns whether it may: some workers are left for other requests.
    fn begin_login(&mut self) -> bool;

    /// The worker waits for no check any more.
    fn end_login(&mut self);

    /// Whether a connection in this state can be parked.
    fn parks(&self, connection: &Connection, transport: &Transport) -> bool;

    fn park(&mut self, client: Box<ServedClient>);

    /// Notes where the connection is counted that is served now.
    fn holds(&mut self, _counted_at: Option<u32>) {}

    /// Takes out the parked connection that goes first, so that a new one gets its permit.
    fn take_victim(&mut self) -> Option<Box<ServedClient>>;

    /// Whether new connections may wait for a permit, or for a worker.
    fn lacks_places(&self) -> bool;

    /// The worker waits for its client in vain. Returns whether the connection is to be closed for a new one.
    fn gives_way(&mut self, evictable: Option<Evictable>) -> bool;

    /// The client has done something, or its connection is over.
    fn goes_on(&mut self);

    /// Takes out a parked connection whose handshake has waited for its client for longest. It is counted as closed.
    fn take_oldest_handshake(&mut self) -> Option<Box<ServedClient>>;
}

pub(crate) enum Arrival {
    New(OwnedFd, TransportInfo),
    /// A connection that was parked.
    Parked(Box<ServedClient>),
    /// A connection could not be accepted, for a reason that may pass.
    Failed(Errno),
}
