//! What the data say to a plan's findings: each holds, does not hold, or cannot be told, and by how much.
//!
//! Rules that make an answer worth something: ratios are taken within a round, so that a machine that drifts hits both
//! sides; a bound that lies between the lowest and the highest repeat is not decided; what was not measured is not
//! decided. Of several places the one that speaks most against the claim counts.

mod check;
mod judgement;
#[cfg(test)]
mod tests;

pub use self::judgement::{Judgement, Verdict};
use crate::data::Data;
use crate::plan::{Finding, Plan};

/// Every finding of a plan with its answer.
pub fn judge<'a>(plan: &'a Plan, data: &Data) -> Vec<(&'a Finding, Judgement)> {
    plan.findings.iter().map(|finding| (finding, check::judge(plan, &finding.check, data))).collect()
}
