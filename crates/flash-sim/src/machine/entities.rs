//! The entities that move through the machine or wait in it.

use crate::engine::{Time, WaitQueue};
use crate::model::{Read, RoleId, ServiceMode};

/// No runner, no request, no processor.
pub(super) const NONE: u32 = u32::MAX;

/// What a client asks for now. A client has one request at a time, and they share a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) file: u32,
    /// Where it is in the model's program.
    pub(super) step: u32,
    pub(super) bytes_left: u64,
    pub(super) window_bytes: u64,
    pub(super) began: Time,
    /// The processor whose runners serve its connection, where they are bound to one.
    pub(super) lane: u32,
    /// Requests so far on this connection.
    pub(super) on_connection: u32,
    /// Its connection waited for a thread or process that is free.
    pub(super) is_parked: bool,
    /// What the last look-up said.
    pub(super) found: bool,
    /// Its content is sent from the page cache.
    pub(super) is_in_pages: bool,
    /// Who waits with it for a disk or the wire, if anybody does.
    pub(super) waiter: u32,
    /// The queue that it joins if no runner waited.
    pub(super) desk: u32,
    /// What it waits for at a disk, and for whose cache.
    pub(super) read: Read,
    pub(super) process: u32,
}

/// A thread, a process, a helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runner {
    pub(super) role: RoleId,
    pub(super) mode: ServiceMode,
    /// What turning to it costs a processor.
    pub(super) switch: Time,
    pub(super) desk: u32,
    /// Where it queues for a processor.
    pub(super) run_queue: u32,
    /// Whose books it uses, where they are not shared.
    pub(super) process: u32,
    pub(super) request: u32,
    /// Where it runs, or ran last.
    pub(super) processor: u32,
    /// Processor time that it has used up as far as its own steps go, and has not yet been given. What others could notice
    /// waits until it is paid.
    pub(super) debt: Time,
    /// Since it got the processor.
    pub(super) slice: Time,
    /// When it first asked for the lock that it has not got yet.
    pub(super) lock_asked: Option<Time>,
}

/// Where requests wait for a role's runners: one for a pool, one for each processor otherwise.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    pub(super) role: RoleId,
    pub(super) line: WaitQueue,
    /// Those with nothing to do.
    pub(super) asleep: Vec<u32>,
}

/// Runners that could run, and processors with nothing to do: never both.
#[derive(Clone, Debug, Default)]
pub(super) struct RunQueue {
    /// Helpers.
    pub(super) urgent: WaitQueue,
    pub(super) ordinary: WaitQueue,
    pub(super) idle: Vec<u32>,
}

impl RunQueue {
    /// No runner waits while a processor is idle.
    pub(super) fn wastes_nothing(&self) -> bool {
        self.idle.is_empty() || (self.urgent.is_empty() && self.ordinary.is_empty())
    }

    /// An idle processor, the one that was asked for if it idles.
    pub(super) fn wake(&mut self, preferred: u32) -> Option<u32> {
        match self.idle.iter().position(|&processor| processor == preferred) {
            Some(at) => Some(self.idle.swap_remove(at)),
            None => self.idle.pop(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    pub(super) run_queue: u32,
    pub(super) runner: u32,
    /// Whom it ran last.
    pub(super) last: u32,
    /// The end of the time that it has given.
    pub(super) until: Time,
    /// Since when its runner spins at a lock.
    pub(super) spinning: Option<Time>,
}
