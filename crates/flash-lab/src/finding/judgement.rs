//! The answer to a finding.

use serde::Serialize;

use crate::data::Spread;

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
