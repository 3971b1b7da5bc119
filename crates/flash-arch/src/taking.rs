//! The thread that takes a predecessor's idle connections. Processes with loops or threads have one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::connection_permit::ConnectionPermit;
use crate::hand_over::{self, IdleConnection, TAKES_AT_LEAST, TakeOver};
use crate::server_state::ServerState;

/// How often a server that is replaced looks whether its predecessor has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The thread, if there is a predecessor.
#[derive(Default)]
pub(crate) struct Taking(Option<(OwnedFd, Instant, JoinHandle<()>)>);

impl Taking {
    /// Gives each connection that comes from there to `go_on`, with a permit. Without one, the connection closes, as idle ones do
    /// when all permits are taken.
    pub(crate) fn start(
        from: Option<OwnedFd>,
        shared: &Arc<ServerState>,
        mut go_on: impl FnMut(IdleConnection, ConnectionPermit) + Send + 'static,
    ) -> Self {
        let Some(from) = from else { return Self::default() };
        let shared = Arc::clone(shared);
        let start = || -> io::Result<_> {
            let (again, permits) = (from.try_clone()?, &shared.permits);
            let left = permits.connections_max().saturating_sub(permits.connections());
            let mut from = TakeOver::begin(from, left)?;
            let thread = thread::Builder::new().name("take-over".into()).spawn(move || {
                while let Some(idle) = from.next() {
                    if let Some(permit) = shared.permit() {
                        go_on(idle, permit);
                    }
                }
            })?;
            Ok((again, Instant::now(), thread))
        };
        // If it fails, the predecessor keeps its connections.
        Self(start().ok())
    }

    /// Takes what has been sent, and no more. If there is a successor, to which the connections can go on, it waits when the
    /// predecessor has had little time.
    pub(crate) fn stop(self, has_successor: bool) {
        if let Some((socket, since, thread)) = self.0 {
            while has_successor && !thread.is_finished() && since.elapsed() < TAKES_AT_LEAST {
                thread::sleep(LOOK_EVERY);
            }
            hand_over::stop(&socket);
            let _ = thread.join();
        }
    }
}
