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
    /// The same of a quick run, which is too short to decide.
    SeemsToHold,
    SeemsNotToHold,
    /// Repeats disagree, or something was not measured.
    CannotTell,
}

impl Verdict {
    pub const ALL: [Verdict; 5] = [
        Verdict::Holds,
        Verdict::DoesNotHold,
        Verdict::SeemsToHold,
        Verdict::SeemsNotToHold,
        Verdict::CannotTell,
    ];

    /// What a quick run says in place of it.
    pub(crate) fn as_indication(self) -> Verdict {
        match self {
            Verdict::Holds => Verdict::SeemsToHold,
            Verdict::DoesNotHold => Verdict::SeemsNotToHold,
            other => other,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::SeemsToHold => "indication: holds",
            Verdict::SeemsNotToHold => "indication: does not hold",
            Verdict::CannotTell => "cannot tell",
        })
    }
}
