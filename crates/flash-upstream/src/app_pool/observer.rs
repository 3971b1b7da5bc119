//! What tells a [pool](super) that a process runs or has ended.

use std::sync::{Arc, Weak};

use flash_core::upstream::OpenError;
use flash_process::{ExitStatus, ProcessObserver, Started};

use super::{AppPool, Event};

/// Tells the pool of a process's start and end.
pub(super) struct PoolObserver {
    /// The monitor holds this, and the pool may go before.
    pool: Weak<AppPool>,
    number: u64,
}

impl PoolObserver {
    pub(super) fn new(pool: &Arc<AppPool>, number: u64) -> Self {
        Self { pool: Arc::downgrade(pool), number }
    }

    /// Not on this thread, which is the monitor's: starting another would be asking itself.
    fn tell(&self, event: Event) {
        if let Some(pool) = self.pool.upgrade() {
            pool.send(event);
        }
    }
}

impl ProcessObserver for PoolObserver {
    fn started(&mut self, result: Result<Started, OpenError>) {
        self.tell(Event::Started { number: self.number, result });
    }

    fn exited(&mut self, how: ExitStatus) {
        self.tell(Event::Ended { number: self.number, how });
    }
}
