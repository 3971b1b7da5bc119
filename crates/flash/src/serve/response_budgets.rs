//! What the responses of programs may take until their clients have received them: one budget of a server process for all sites.

use std::sync::Arc;

use flash_core::cache::memory_budget::Budget;

#[derive(Clone, Debug)]
pub(super) struct ResponseBudgets {
    /// For request bodies, too.
    pub(super) memory: Arc<Budget>,
    pub(super) disk: Arc<Budget>,
}

impl ResponseBudgets {
    pub(super) fn new(memory_bytes: u64, disk_bytes: u64) -> Self {
        Self { memory: Budget::new(memory_bytes), disk: Budget::new(disk_bytes) }
    }

    /// Where no program answers.
    pub(super) fn nothing() -> Self {
        Self::new(0, 0)
    }
}
