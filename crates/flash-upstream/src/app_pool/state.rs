//! The processes of an application, and the requests that wait for one. What is done with them is decided by the
//! [pool](super).

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flash_core::upstream::{OnOpened, OpenError, Opened};
use flash_process::{ExitStatus, ProcessHandle};

use super::private_address::PrivateAddress;
use crate::counts::Counted;

#[derive(Debug, Default)]
pub(super) struct PoolState {
    pub(super) processes: Vec<Process>,
    pub(super) waiting: VecDeque<Waiting>,
    /// The number of the last process.
    pub(super) numbers: u64,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u64,
    pub(super) address: PrivateAddress,
    /// Dropping it ends the process. `None` as long as it is not known to run, and when it has been ended.
    pub(super) handle: Option<ProcessHandle>,
    pub(super) served: usize,
    /// When its start was asked for.
    pub(super) born: Instant,
    pub(super) phase: Phase,
    pub(super) _counted: Counted,
}

#[derive(Debug)]
pub(super) enum Phase {
    Starting,
    /// It runs, and the connector connects to it.
    Connecting,
    Idle {
        /// It may have closed the last one, as not all programs keep connections.
        stream: Option<OwnedFd>,
        /// No request has used the stream.
        is_new: bool,
        since: Instant,
    },
    /// It serves, or has still to notice that its client is gone.
    Busy,
    /// It was told to end, or has closed its socket. Until it ends it counts against the limit.
    Ending,
}

/// A request for which there is no process yet.
pub(super) struct Waiting {
    pub(super) name: Arc<str>,
    pub(super) since: Instant,
    pub(super) give_up_at: Instant,
    pub(super) reply: OnOpened,
    pub(super) _counted: Counted,
}

impl Process {
    /// It waits for a request.
    pub(super) fn rest(&mut self, stream: Option<OwnedFd>, is_new: bool) {
        self.phase = Phase::Idle { stream, is_new, since: Instant::now() };
    }

    /// How long a request that gets it, and came at `since`, waited for others. For a new process it waited only until that began to
    /// start.
    pub(super) fn queued(&self, since: Instant, now: Instant) -> Duration {
        let until = if self.served == 0 { self.born } else { now };
        until.saturating_duration_since(since)
    }

    pub(super) fn end(&mut self) {
        self.handle = None;
        self.phase = Phase::Ending;
    }
}

impl PoolState {
    pub(super) fn find(&mut self, number: u64) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.number == number)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Process> {
        let at = self.processes.iter().position(|process| process.number == number)?;
        Some(self.processes.remove(at))
    }

    /// How many will be idle soon.
    pub(super) fn starting(&self) -> usize {
        let is_starting = |process: &&Process| matches!(process.phase, Phase::Starting | Phase::Connecting);
        self.processes.iter().filter(is_starting).count()
    }

    pub(super) fn refuse_first(&mut self, why: OpenError) -> Option<(OnOpened, Opened)> {
        self.waiting.pop_front().map(|waiting| (waiting.reply, Opened::Failed(why)))
    }
}

/// How a process ended, as it follows its name.
pub(super) struct ExitReason(pub(super) ExitStatus);

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ExitStatus::Code(code) => write!(f, "ended with code {code}"),
            ExitStatus::Signal(signal) => write!(f, "was ended by signal {signal}"),
            ExitStatus::Unknown => f.write_str("ended"),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("name", &self.name).finish_non_exhaustive()
    }
}
