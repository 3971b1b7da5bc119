//! What a run is: which server, who asks, how they behave, how long. Plain data, made by the flags or by a program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flash_traffic::Workload;

use crate::{Pace, Server, Verify};

/// One run against one server.
#[derive(Clone)]
pub struct Load {
    pub server: Server,
    /// Who asks; all crowds at the same time.
    pub crowds: Vec<Crowd>,
    pub threads: u32,
    /// The first time, which is not counted.
    pub warm_up: Duration,
    pub until: Until,
    /// How long an answer may take, from the moment its request was due.
    pub timeout: Duration,
    pub seed: u64,
}

/// When a run ends; the warm-up comes before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Time(Duration),
    /// So many requests have been asked and answered, or have failed.
    Requests(u64),
}

/// Clients of one kind.
#[derive(Clone)]
pub struct Crowd {
    pub workload: Arc<dyn Workload>,
    pub pace: Pace,
    pub manner: Manner,
}

/// How clients behave on their connections.
#[derive(Clone, Debug)]
pub struct Manner {
    pub keep: Keep,
    /// Requests under way at once on a connection.
    pub pipeline: u32,
    pub link: Option<Link>,
    pub method: Method,
    /// Which part of the requests for what a client has seen before are conditional, 0 to 1.
    pub conditional: f64,
    /// Which part of the requests for files of known size ask for a range, 0 to 1.
    pub ranges: f64,
    /// Values of Accept-Encoding, each with its part of the requests; what is left to 1 goes without.
    pub encodings: Vec<(String, f64)>,
    /// More fields of every request, as `Name: value`.
    pub fields: Vec<String>,
    /// What the bodies of answers are compared with.
    pub verify: Verify,
}

impl Default for Manner {
    /// Clients that stay, on fast lines, and simply ask.
    fn default() -> Manner {
        Manner {
            keep: Keep::Open,
            pipeline: 1,
            link: None,
            method: Method::Get,
            conditional: 0.0,
            ranges: 0.0,
            encodings: Vec::new(),
            fields: Vec::new(),
            verify: Verify::Nothing,
        }
    }
}

/// How long a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As long as the server lets it, or until the workload says that a session ends.
    Open,
    /// So many requests, at least one.
    Requests(u32),
}

/// A slow line, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub down_bytes_per_second: u64,
    pub up_bytes_per_second: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
}

impl fmt::Display for Load {
    /// `32 clients, closed loop, against 127.0.0.1:80`, for titles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, crowd) in self.crowds.iter().enumerate() {
            let files = crowd.workload.catalogue().files.len();
            let and = if number > 0 { "; " } else { "" };
            write!(f, "{and}{}, {files} {}", crowd.pace, if files == 1 { "target" } else { "targets" })?;
        }
        write!(f, "; against {}", self.server.address)
    }
}
