//! How clients behave. Each client requests the next file as soon as it has the one before (infinite demand). If the plan's
//! axis is a load level, requests come at random times instead (Poisson), with or without responses.

use serde::{Deserialize, Serialize};

/// The clients of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub clients: u32,
    #[serde(default)]
    pub connections: Connections,
    /// Beside all that, one hot file of 1 KB is asked for so many times a second on a fixed schedule. Its waits count
    /// from the time meant, and are told apart (`hot.latency_p99_ms`) from the others' (`cold.`).
    pub hot_per_second: Option<f64>,
    /// The protocol of all connections. HTTP/2 needs TLS here, and so do browsers.
    #[serde(default)]
    pub protocol: Protocol,
    /// What each of the connections that are held beside has asked for, once: a file of its own of so many times 1,024
    /// bytes.
    #[serde(default)]
    pub idle_kilobytes: u32,
    /// How many clients can have a bit rate at the same time, up to `clients`, is searched for.
    pub conform: Option<Conform>,
    #[serde(default)]
    pub waiters: Waiters,
    /// How long clients ask before anything counts.
    pub warm_up_seconds: f64,
    /// How long what they get counts.
    pub seconds: f64,
}

/// What clients speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    #[default]
    Http1,
    Http1Tls,
    Http2Tls,
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

/// How many threads or processes those servers have that give one to each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiters {
    /// As many as a site would give them.
    #[default]
    Usual,
    /// One for each client.
    PerClient,
}

/// Clients on slow lines who should get most of what these carry, as in SPECweb99. Each step of the search lasts as long as
/// the warm-up and the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conform {
    pub line_bits_per_second: u64,
    pub bits_per_second_min: u64,
}
