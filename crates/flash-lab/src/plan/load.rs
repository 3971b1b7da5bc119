//! How clients behave.

use serde::{Deserialize, Serialize};

/// The clients of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub clients: u32,
    #[serde(default)]
    pub connections: Connections,
    #[serde(default)]
    pub pace: Pace,
    /// How long clients ask before anything counts.
    pub warm_up_seconds: f64,
    /// How long what they get counts.
    pub seconds: f64,
}

/// How many requests a connection serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// All that its client ever makes.
    #[default]
    Persistent,
    /// One, as in 1999.
    Fresh,
    /// So many, then a new one.
    Requests(u32),
}

/// When the next request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// As soon as the client has its answer: infinite demand.
    #[default]
    Closed,
    /// So many a second at random times (Poisson), whether answers come or not; waits count from the time meant.
    Open { per_second: f64 },
}
