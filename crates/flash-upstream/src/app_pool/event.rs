//! What happens to a [pool](super).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::upstream::{OnOpened, OpenError};
use flash_process::{ExitStatus, Started};
use rustix::io::Errno;

/// Processes that it does not know any more are of no concern.
pub(super) enum Event {
    Open {
        name: Arc<str>,
        again: bool,
        reply: OnOpened,
    },
    /// A request waits that could be served.
    Wanted,
    Started {
        number: u64,
        result: Result<Started, OpenError>,
    },
    /// A process is idle, and has no connection that the next request could use.
    Unconnected {
        number: u64,
    },
    Connected {
        number: u64,
        result: Result<OwnedFd, Errno>,
    },
    /// A process has served, and may serve again, over the same connection if there is one.
    Free {
        number: u64,
        stream: Option<OwnedFd>,
    },
    /// A process was leased to a request that had left.
    Unused {
        number: u64,
    },
    /// A process is of no more use.
    Useless {
        number: u64,
    },
    Ended {
        number: u64,
        how: ExitStatus,
    },
}
