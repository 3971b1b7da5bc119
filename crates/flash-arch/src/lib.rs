//! The architectures: which thread or process runs a request, and which waits for the disk.
//!
//! |            | the worker itself waits | helpers wait             |
//! |------------|-------------------------|--------------------------|
//! | a process  | [`mp`]                  |                          |
//! | a thread   | [`mt`]                  |                          |
//! | a loop     | [`sped`]                | [`amped`], and [`uring`] |
//! | its steps  |                         | [`pipelined`]            |
//!
//! One request path, `flash-core`, serves all of them. Loops share [`event_loop`], and workers that block share
//! [`blocking`]. The file of its name has the rest of each architecture.

#![forbid(unsafe_code)]

mod acceptor;
mod admission;
mod amped;
mod blocking;
mod blocking_call;
mod clock;
mod completion_queue;
mod connection_permit;
mod dispatch;
mod epoll;
mod epoll_registration;
mod event_loop;
mod helper_processes;
mod helpers;
mod limits;
pub mod listener;
mod longest_idle;
mod loops;
mod mp;
mod mt;
mod parked;
mod pipelined;
mod poller;
mod root_watch;
pub mod sandbox;
mod server_state;
mod signals;
mod socket;
mod sped;
#[cfg(test)]
mod testing;
mod timer_wheel;
mod upstream_io;
pub mod uring;
mod worker;

use std::io;

use flash_process::Child;

pub use crate::clock::server_us;
use crate::epoll::Epoll;
pub use crate::helper_processes::{HelperKind, HelperProcesses, HelperRoles};
pub use crate::helpers::{HelperLimits, Offload};
pub use crate::limits::Limits;
pub use crate::listener::{Listener, SocketAccess};
pub use crate::server_state::{ServerParts, ServerState};
use crate::uring::RingPoller;

/// An architecture and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    Amped {
        loops: usize,
        helpers: HelperLimits,
    },
    /// See [`uring::probe`].
    Uring {
        loops: usize,
        helpers: HelperLimits,
    },
    Sped {
        loops: usize,
    },
    Pipelined {
        pools: usize,
        helpers: HelperLimits,
    },
    Mt {
        /// At the start, and the least.
        threads: usize,
        threads_max: usize,
    },
    Mp {
        /// At the start, and the least.
        processes: usize,
        processes_max: usize,
    },
}

/// Serves until a signal to stop comes, or a needed process ends. Each process that serves calls `parts` once, with its
/// number.
/// `ready` is called once, when connections are accepted.
///
/// # Errors
/// If it cannot serve, or has stopped because a needed process has ended.
pub fn serve(
    arch: Arch,
    limits: Limits,
    listeners: Vec<Listener>,
    needed: &[Child],
    parts: impl Fn(usize) -> io::Result<ServerParts>,
    ready: impl FnOnce(),
) -> io::Result<()> {
    match arch {
        Arch::Amped { loops, helpers } => {
            amped::serve::<Epoll>(loops, helpers, limits, listeners, needed, parts(0)?, ready)
        }
        Arch::Uring { loops, helpers } => {
            amped::serve::<RingPoller>(loops, helpers, limits, listeners, needed, parts(0)?, ready)
        }
        Arch::Sped { loops } => sped::serve(loops, limits, listeners, needed, parts(0)?, ready),
        Arch::Pipelined { pools, helpers } => {
            pipelined::serve(pools, helpers, limits, listeners, needed, parts(0)?, ready)
        }
        Arch::Mt { threads, threads_max } => {
            mt::serve(threads, threads_max, limits, listeners, needed, parts(0)?, ready)
        }
        Arch::Mp { processes, processes_max } => {
            mp::serve(processes, processes_max, limits, listeners, needed, parts, ready)
        }
    }
}
