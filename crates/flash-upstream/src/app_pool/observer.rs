//! What tells a [pool](super) that a process runs or has ended.

use flash_core::upstream::OpenError;
use flash_process::{ExitStatus, ProcessObserver, Started};

use super::event::Event;

/// Tells a pool of a process's start and end.
pub(super) struct PoolObserver<Tell> {
    pub(super) tell: Tell,
    pub(super) number: u64,
}

impl<Tell: Fn(Event) + Send> ProcessObserver for PoolObserver<Tell> {
    fn started(&mut self, result: Result<Started, OpenError>) {
        (self.tell)(Event::Started { number: self.number, result });
    }

    fn exited(&mut self, how: ExitStatus) {
        (self.tell)(Event::Ended { number: self.number, how });
    }
}
