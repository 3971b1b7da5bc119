//! The figures of an experiment's data.

use serde::{Deserialize, Serialize};

use super::at::At;

/// A figure: a line, or a bar, for each server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    pub title: String,
    pub kind: Kind,
    /// The measured figure that is drawn, as records name it; of distributions, the distribution's name.
    pub y: String,
    /// What stands beside the axis, with its unit. Without it, what [`crate::record::describe`] says of `y`; under a
    /// distribution it stands below the x axis.
    pub y_label: Option<String>,
    #[serde(default)]
    pub x_scale: Scale,
    #[serde(default)]
    pub y_scale: Scale,
    /// Distributions are drawn at this place of the sweep; without it, at the last.
    pub at: Option<At>,
    /// The paper's numbers in the same units.
    #[serde(default)]
    pub paper: Vec<PaperSeries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Over the sweep.
    Lines,
    /// Side by side, a group for each place of the sweep.
    Bars,
    /// The share of all that is at most x.
    Distribution,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// A curve or a number that a paper printed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSeries {
    /// `Flash-SPED, 1999`.
    pub name: String,
    /// The server of this plan that it should be seen beside.
    pub server: Option<String>,
    /// x and y of a curve.
    #[serde(default)]
    pub points: Vec<(f64, f64)>,
    /// For bars without a sweep: the number that stands beside a server's.
    #[serde(default)]
    pub bars: std::collections::BTreeMap<String, f64>,
    /// Whether the numbers were printed or read off a curve by eye.
    #[serde(default)]
    pub read_off: bool,
}
