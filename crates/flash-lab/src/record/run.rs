//! A run and its measurements.

use std::collections::{BTreeMap, BTreeSet};

use flash_load::Invalid;
use serde::{Deserialize, Serialize};

use crate::plan::{At, Extent};

/// The circumstances of a run: `run.json`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Run {
    /// The plan's name.
    pub plan: String,
    /// The plan as it was then, word for word.
    pub plan_text: String,
    pub extent: Extent,
    /// Of the order of servers, of sites and of clients.
    pub seed: u64,
    /// Seconds since 1970.
    pub began_unix: u64,
    pub machine: Machine,
    /// In the plan's order.
    pub servers: Vec<Measured>,
    /// What the plan names and this machine does not have.
    pub missing: Vec<Missing>,
    /// What readers must know: a made-up site instead of a log, a disk that could not be throttled.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The commands that measured it, as they were given.
    #[serde(default)]
    pub commands: Vec<String>,
    /// What was left out because the user was not root. Empty in a whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reduced: Vec<String>,
}

/// The machine, and what was measured with.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Machine {
    pub processor: String,
    pub processors: u32,
    pub memory_mb: u64,
    pub kernel: String,
    /// The disk that files are served from.
    pub disk: String,
    /// The lab's version, and the commit it was built from where that is known.
    pub lab: String,
    pub commit: Option<String>,
}

/// A server that is measured.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Measured {
    /// As the plan calls it.
    pub name: String,
    /// What the program says of itself.
    pub version: Option<String>,
}

/// A server, a log, a right that is not there.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Missing {
    pub name: String,
    pub why: String,
}

/// One server at one place of the sweep, once: a line of `raw.jsonl`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Measurement {
    pub server: String,
    pub x: At,
    /// The round it belongs to, from 0.
    pub repeat: u32,
    /// Its turn within the round, from 0.
    pub turn: u32,
    /// When it began, in seconds since 1970.
    pub began_unix: u64,
    /// How long it took, preparations counted.
    pub took_seconds: f64,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a measurement.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done(Figures),
    /// The server, or what drives it, failed; its last words.
    Failed(String),
    /// It was not measured, because it builds on a measurement that gave no result.
    Skipped(String),
}

/// The numbers of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    /// See [`describe`](super::describe) for names and units.
    pub figures: BTreeMap<String, f64>,
    /// Values with how often each occurred, in ascending order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Vec<(f64, u64)>>,
    /// What clients met with, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Figures that would be larger if clients had waited for all answers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub at_least: BTreeSet<String>,
    /// Why these numbers are not a result, if they are none: the clients could not ask when they should have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<Invalid>,
}

impl Measurement {
    /// Its numbers, if they are a result.
    pub fn result(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Done(done) if done.invalid.is_none() => Some(done),
            Outcome::Done(_) | Outcome::Failed(_) | Outcome::Skipped(_) => None,
        }
    }

    /// None if there is no result.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.result()?.figures.get(name).copied()
    }
}
