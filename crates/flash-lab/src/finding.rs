//! Checks a plan's findings against the data: each holds, does not hold, or cannot be decided, with its figure.
//!
//! The rules:
//!
//! - A ratio is taken within a round, so a machine that drifts affects both sides.
//! - A bound between the lowest and the highest repeat is not decided.
//! - A claim without data is not decided. Measurements that are [no result](crate::record::Measurement::result) are no data.
//! - A quick run decides nothing. It gives an indication.
//! - Of several places, the one that speaks most against the claim counts.

mod check;
mod judgement;
#[cfg(test)]
mod tests;

pub use self::judgement::{Judgement, Verdict};
use crate::data::Data;
use crate::plan::{Extent, Finding, Plan};

/// Every finding of a plan with its answer. That of a reduced run says so: it is of another machine than the claim.
pub fn judge<'a>(plan: &'a Plan, data: &Data) -> Vec<(&'a Finding, Judgement)> {
    let judged = plan.findings.iter().map(|finding| {
        let mut judgement = check::judge(plan, &finding.check, data);
        if data.run.extent == Extent::Quick {
            judgement.verdict = judgement.verdict.as_indication();
        }
        if !data.run.reduced.is_empty() {
            judgement.measured.insert_str(0, "reduced: ");
        }
        (finding, judgement)
    });
    judged.collect()
}
