//! A paper's finding, and the check of the data that decides it.

use serde::{Deserialize, Serialize};

use super::at::At;

/// A claim with its check.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// In words.
    pub claim: String,
    /// Who says so, and where: `Flash §6.2, Figure 9`.
    pub source: String,
    pub check: Check,
}

/// A question that medians of a measured figure answer.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Check {
    /// One server's figure divided by another's, or by its own at another place, is within bounds at each of these places. If
    /// no place is given, all places count where both were measured. The ratio is taken within each round, so drift cancels
    /// out.
    Ratio {
        figure: String,
        of: Term,
        to: Term,
        #[serde(default)]
        at: Vec<At>,
        bounds: Bounds,
    },
    /// The figure itself lies within bounds.
    Value {
        figure: String,
        of: Term,
        #[serde(default)]
        at: Vec<At>,
        bounds: Bounds,
    },
    /// From the highest figure to the lowest, servers come in this order.
    Rank { figure: String, at: Option<At>, order: Vec<String> },
    /// The mean of the figure where x is above `after`, divided by its mean up to there, lies within bounds.
    Change { figure: String, server: String, after: f64, bounds: Bounds },
    /// Where x is within these limits, the highest figure divided by the lowest is at most this.
    Steady { figure: String, server: String, from: f64, to: f64, within: f64 },
    /// The lowest x at which `of` divided by `to` falls below 1 lies within bounds.
    Crossing { figure: String, of: Term, to: Term, bounds: Bounds },
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// One server, or several, of which one counts.
    pub servers: Vec<String>,
    /// Which one.
    #[serde(default)]
    pub pick: Pick,
    /// A place of its own, instead of the check's.
    pub at: Option<At>,
    /// A figure of its own, instead of the check's.
    pub figure: Option<String>,
}

/// Which of several servers stands for them all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The one with the highest figure: the best where more is better.
    #[default]
    Highest,
    Lowest,
}

/// Limits; a number that equals one of them is within.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}
