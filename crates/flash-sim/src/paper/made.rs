//! How figures and claims were made: the version, the settings, the seeds and the extent. Each of them records it.

use std::fmt::Write;

use serde::Serialize;

use super::panel::{Effort, SETTLING_PER_CLIENT, base};
use crate::scenario::{Scenario, Setting};
use flash_cli::Failure;

/// What one `flash sim paper` was.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Made {
    version: &'static str,
    quick: bool,
    /// As on the command line.
    settings: Vec<String>,
    /// From 1 to this.
    seeds: u64,
    /// What all runs of figures share. Figures say themselves what they vary.
    scenario: Scenario,
    /// Whether it is what reasons were written for.
    #[serde(skip)]
    pub(super) is_default: bool,
}

impl Made {
    pub(super) fn new(effort: Effort, settings: &[Setting]) -> Result<Made, Failure> {
        let scenario = base(effort, settings)?;
        Ok(Made {
            version: env!("CARGO_PKG_VERSION"),
            quick: effort == Effort::Quick,
            settings: settings.iter().map(Setting::to_string).collect(),
            seeds: effort.seeds(),
            is_default: scenario == base(effort, &[])?,
            scenario,
        })
    }

    pub(super) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// `flash sim 0.1.0, flash sim paper --quick: seed 1, …`, for what was simulated.
    pub(super) fn said(&self) -> String {
        let mut said = format!("flash sim {}, flash sim paper", self.version);
        if self.quick {
            said += " --quick";
        }
        for setting in &self.settings {
            write!(said, " {setting}").expect("a String takes everything");
        }
        let run = &self.scenario.run;
        let settling = match run.settling_requests {
            Some(requests) => format!("{requests} in all"),
            None => format!("{SETTLING_PER_CLIENT} of each client"),
        };
        write!(said, ": {}, {} requests after {settling}", seeds(self.seeds), run.measured_requests)
            .expect("a String takes everything");
        for disk in &self.scenario.machine.disks {
            write!(said, ". A disk has {}", disk.access()).expect("a String takes everything");
        }
        said + "."
    }

    /// The same for what follows from the paper's formulas alone.
    pub(super) fn said_of_formulas(&self) -> String {
        format!("flash sim {}: formulas, without a run.", self.version)
    }

    /// The same for so many requests with each seed, whatever was set.
    pub(super) fn said_of_all_seeds(&self, requests: u32) -> String {
        format!(
            "flash sim {}: {}, {requests} requests, the paper's settings.",
            self.version,
            seeds(self.seeds)
        )
    }
}

fn seeds(count: u64) -> String {
    match count {
        1 => "seed 1".to_owned(),
        count => format!("seeds 1 to {count}"),
    }
}
