//! What the report tells of.

use crate::data::Data;
use crate::finding::{self, Judgement};
use crate::plan::{Finding, Plan};

/// A plan as it was run, and what came of it.
pub(super) struct Experiment {
    pub(super) plan: Plan,
    pub(super) data: Data,
}

impl Experiment {
    pub(super) fn findings(&self) -> Vec<(&Finding, Judgement)> {
        finding::judge(&self.plan, &self.data)
    }
}
