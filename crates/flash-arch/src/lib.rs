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

mod admin;
mod amped;
mod background;
mod blocking;
mod blocking_call;
mod clock;
mod completion_queue;
pub mod connections;
mod dispatch;
mod document_root;
mod driver;
mod event_loop;
mod fair_queue;
mod helper_processes;
mod helpers;
mod limits;
mod login_pool;
mod loops;
mod mp;
mod mt;
mod pipelined;
mod poller;
pub mod sandbox;
mod server_state;
mod service;
mod sped;
#[cfg(test)]
mod testing;
mod timer_wheel;
mod upstream_io;
pub mod uring;
mod worker;

use std::num::NonZero;
use std::{io, thread};

use flash_observe::metrics::MetricsMemory;

pub use crate::admin::listeners::AdminListeners;
pub use crate::admin::snapshot;
pub use crate::clock::server_us;
pub use crate::connections::listener::Listener;
pub use crate::helper_processes::{HelperKind, HelperProcesses, HelperRoles, SiteOpeners};
pub use crate::helpers::HelperLimits;
pub use crate::helpers::file_service::FileService;
pub use crate::limits::Limits;
use crate::poller::readiness::ReadinessPoller;
pub use crate::server_state::{ServerParts, ServerState};
pub use crate::service::reload::{Configurator, Next, Present};
pub use crate::service::{Ready, Startup};
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

impl Arch {
    /// The memory in which a server of this architecture counts. Made before any fork, all its processes share it.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn metrics_memory(self) -> io::Result<MetricsMemory> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let mut memory = match self {
            Self::Amped { loops, .. } | Self::Uring { loops, .. } | Self::Sped { loops } => {
                MetricsMemory::for_loops(loops)
            }
            Self::Pipelined { pools, .. } => MetricsMemory::for_loops(pools * pipelined::STEPS),
            Self::Mt { threads_max, .. } => MetricsMemory::for_workers(threads_max.min(processors)),
            Self::Mp { processes_max, .. } => {
                MetricsMemory::for_processes(processes_max.min(processors), mp::rows(processes_max))
            }
        }?;
        memory.architecture = self.name();
        Ok(memory)
    }

    /// As `--arch` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amped { .. } => "amped",
            Self::Uring { .. } => "uring",
            Self::Sped { .. } => "sped",
            Self::Pipelined { .. } => "pipelined",
            Self::Mt { .. } => "mt",
            Self::Mp { .. } => "mp",
        }
    }
}

/// Serves until a signal to stop comes, or a needed process ends.
///
/// # Errors
/// If it cannot serve, or has stopped because a needed process has ended.
pub fn serve(arch: Arch, startup: Startup<'_>) -> io::Result<()> {
    match arch {
        Arch::Amped { loops, helpers } => amped::serve::<ReadinessPoller>(loops, helpers, startup),
        Arch::Uring { loops, helpers } => amped::serve::<RingPoller>(loops, helpers, startup),
        Arch::Sped { loops } => sped::serve(loops, startup),
        Arch::Pipelined { pools, helpers } => pipelined::serve(pools, helpers, startup),
        Arch::Mt { threads, threads_max } => mt::serve(threads, threads_max, startup),
        Arch::Mp { processes, processes_max } => mp::serve(processes, processes_max, startup),
    }
}
