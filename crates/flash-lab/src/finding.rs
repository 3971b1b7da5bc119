//! What the data say to a plan's findings: each holds, does not hold, or cannot be told, and by how much.
//!
//! Rules that make an answer worth something: ratios are taken within a round, so that a machine that drifts hits both
//! sides; a bound that lies between the lowest and the highest repeat is not decided; what was not measured is not
//! decided. Of several places the one that speaks most against the claim counts.

mod check;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::data::{Data, Spread};
use crate::plan::{Finding, Plan};

/// The answer to one finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// The number that decided, with the spread of the repeats: a ratio, a figure, an x.
    #[serde(skip)]
    pub number: Option<Spread>,
    /// What was measured, in a sentence: `at 150: amped 0.93 of sped (0.91–0.96)`.
    pub measured: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Holds,
    DoesNotHold,
    /// Repeats disagree, or something was not measured.
    CannotTell,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::CannotTell => "cannot tell",
        })
    }
}

/// Every finding of a plan with its answer.
pub fn judge<'a>(plan: &'a Plan, data: &Data) -> Vec<(&'a Finding, Judgement)> {
    plan.findings.iter().map(|finding| (finding, check::judge(plan, &finding.check, data))).collect()
}
