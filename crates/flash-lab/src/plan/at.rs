//! A place on the x axis, and how much of a plan is run.

use serde::{Deserialize, Serialize};

/// A place on the x axis. In JSON null, a number or a word.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum At {
    /// The only one of a plan without a sweep.
    Only,
    Value(f64),
    Case(String),
}

/// How much of a plan is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    Quick,
    Full,
}

impl At {
    pub fn value(&self) -> Option<f64> {
        match self {
            At::Value(value) => Some(*value),
            At::Only | At::Case(_) => None,
        }
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Extent::Quick => "quick",
            Extent::Full => "full",
        })
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            At::Only => Ok(()),
            At::Value(value) => write!(f, "{value}"),
            At::Case(name) => f.write_str(name),
        }
    }
}
