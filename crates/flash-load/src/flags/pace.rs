//! When clients send requests: the flags of the pace, of hot targets, and of searches and sweeps.

use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use flash_load::{Arrivals, CONNECTIONS_MAX, Error, Pace};
use flash_traffic::Workload;

use super::units::{bits, positive, span};

/// Levels beyond this are a server's end, not a measurement.
const LEVEL_MAX: f64 = 10.0;

#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
#[group(skip)]
#[command(group = ArgGroup::new("pace").args(["clients", "rate", "recorded", "find_capacity", "find_conforming"]).multiple(false))]
pub(super) struct PaceFlags {
    /// Closed loop: this many clients, and each waits for a response before its next request [default: 32]
    #[arg(long, short = 'c', value_name = "N")]
    clients: Option<u32>,
    /// How long a client pauses between a response and its next request
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = span, conflicts_with_all = ["rate", "recorded"])]
    think: Duration,
    /// Open loop: this many requests a second, with or without responses; a wait counts from the time when its request was due
    #[arg(long, value_name = "PER-SECOND", value_parser = positive)]
    rate: Option<f64>,
    /// Send the requests of an open loop at random times, like independent people
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// Send requests at the times of the log, FACTOR times as fast
    #[arg(long, value_name = "FACTOR", value_parser = positive, num_args = 0..=1, default_missing_value = "1")]
    recorded: Option<f64>,
    /// Connections that an open loop may have; it opens one if none is free. If all are busy, a request waits, and that time
    /// counts; if one in a hundred waits, the run is not a result
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX)]
    connections: u32,
    /// Find the server's capacity: double the clients until the rate stops rising
    #[arg(long)]
    find_capacity: bool,
    /// Report how many clients got this many bits a second over the measured time, such as 320k; --line limits the rate
    #[arg(long, value_name = "BITS", value_parser = bits, conflicts_with_all = ["rate", "recorded"])]
    pub(super) min_rate: Option<u64>,
    /// Find the number of clients that can get --min-rate at the same time
    #[arg(long, requires = "min_rate")]
    find_conforming: bool,
    /// Clients at which a search ends
    #[arg(long, value_name = "N", default_value_t = 1024)]
    clients_max: u32,
    /// Measure an open loop at each of these parts of the capacity, such as 0.5,0.8,0.95
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = level, conflicts_with_all = ["rate", "recorded"])]
    levels: Vec<f64>,
    /// The capacity that --levels are parts of, in requests a second [default: found first, as by --find-capacity]
    #[arg(long, value_name = "PER-SECOND", value_parser = positive, requires = "levels")]
    capacity: Option<f64>,
    /// A hot target, requested beside all others, in an open loop with its own results; may be repeated
    #[arg(long, value_name = "TARGET")]
    hot: Vec<String>,
    /// Requests a second for all hot targets together
    #[arg(long, value_name = "PER-SECOND", value_parser = positive, default_value = "1000", requires = "hot")]
    hot_rate: f64,
}

/// How many runs there are, and what for.
#[derive(Clone)]
pub(crate) enum Task {
    Run,
    /// One after the other.
    Sizes(Vec<(u64, Arc<dyn Workload>)>),
    FindCapacity {
        clients_max: u32,
    },
    FindConforming {
        clients_max: u32,
    },
    /// A capacity that is not known is found first.
    Levels {
        levels: Vec<f64>,
        capacity: Option<f64>,
        clients_max: u32,
    },
}

impl PaceFlags {
    pub(super) fn pace(&self) -> Pace {
        let connections_max = self.connections;
        if let Some(per_second) = self.rate {
            let arrivals = if self.poisson { Arrivals::Poisson } else { Arrivals::Constant };
            Pace::Open { per_second, arrivals, connections_max }
        } else if let Some(speed_up) = self.recorded {
            Pace::Recorded { speed_up, connections_max }
        } else {
            Pace::Closed { clients: self.clients.unwrap_or(32), think: self.think }
        }
    }

    /// The hot targets, and the pace of their requests.
    pub(super) fn hot(&self) -> Result<Option<(Vec<String>, Pace)>, Error> {
        if self.hot.is_empty() {
            return Ok(None);
        }
        let right =
            |target: &&String| target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(wrong) = self.hot.iter().find(|target| !right(target)) {
            let wrong = wrong.escape_debug();
            return Err(Error::Usage(format!(
                "--hot '{wrong}' is no target; write a path such as /logo.png"
            )));
        }
        let pace = Pace::Open {
            per_second: self.hot_rate,
            arrivals: Arrivals::Constant,
            connections_max: self.connections,
        };
        Ok(Some((self.hot.clone(), pace)))
    }

    pub(super) fn task(&self) -> Task {
        if !self.levels.is_empty() {
            let (levels, clients_max) = (self.levels.clone(), self.clients_max);
            Task::Levels { levels, capacity: self.capacity, clients_max }
        } else if self.find_capacity {
            Task::FindCapacity { clients_max: self.clients_max }
        } else if self.find_conforming {
            Task::FindConforming { clients_max: self.clients_max }
        } else {
            Task::Run
        }
    }
}

fn level(text: &str) -> Result<f64, String> {
    match positive(text) {
        Ok(level) if level <= LEVEL_MAX => Ok(level),
        _ => Err("write parts of the capacity, such as 0.5,0.8,0.95".into()),
    }
}
