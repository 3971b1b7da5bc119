//! Files one after the other, again and again, dealt out to the parts in turn.

use std::sync::Arc;

use crate::workload::{Ask, FileId, Part, Sequence};

pub(crate) struct RoundRobin {
    order: Arc<[FileId]>,
    /// Counted through all rounds.
    next: u64,
    step: u64,
}

impl RoundRobin {
    pub(crate) fn new(order: &Arc<[FileId]>, part: Part) -> Self {
        Self { order: Arc::clone(order), next: part.index.into(), step: part.of.into() }
    }
}

impl Sequence for RoundRobin {
    fn next(&mut self) -> Option<Ask> {
        let place = self.next.checked_rem(self.order.len() as u64)?;
        self.next += self.step;
        Some(Ask::of(self.order[place as usize]))
    }
}
