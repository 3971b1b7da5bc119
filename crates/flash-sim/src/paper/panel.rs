//! The panels of Figures 5 to 8: what each varies, and every run that it is made of.

use std::num::NonZeroU32;

use flash_figure::Axis;
use flash_sim::Architecture;
use flash_sim::parameters::Disk;

use super::overhead::{MB, data_cache_bytes};
use crate::scenario::{Draft, Scenario, Setting};
use crate::workload::{PaperTrace, Source, Truncated};
use flash_cli::Failure;

const GB: f64 = 1024.0 * MB;

/// One panel of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// What its files are called: `figure6a`.
    pub name: &'static str,
    pub figure: u8,
    pub title: &'static str,
    pub trace: &'static str,
    pub varies: Varies,
}

/// What grows to the right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Varies {
    /// Throughput against processors, with so much memory and so many clients.
    Processors { system_bytes: f64, clients: u32 },
    /// Bandwidth of one processor against the data set, in MB.
    DataSet,
    /// Bandwidth of one processor against clients.
    Clients,
}

const CSE: &str = "penn-state-cse";

/// Figure 7 leaves 4 GB to Figure 6(a), and Figure 8 leaves 1,000 clients to Figure 7(b).
pub(super) static PANELS: [Panel; 14] = [
    Panel::validation("figure5a", "Figure 5(a). Validation: data set size", Varies::DataSet),
    Panel::validation("figure5b", "Figure 5(b). Validation: number of clients", Varies::Clients),
    Panel::processors(
        6,
        "figure6a",
        "Figure 6(a). Penn State CSE, 4 GB of system memory",
        CSE,
        4.0 * GB,
        1000,
    ),
    Panel::processors(
        6,
        "figure6b",
        "Figure 6(b). UC Berkeley, 3.5 GB of system memory",
        "uc-berkeley",
        3.5 * GB,
        1000,
    ),
    Panel::processors(
        6,
        "figure6c",
        "Figure 6(c). Penn State, 1.5 GB of system memory",
        "penn-state",
        1.5 * GB,
        1000,
    ),
    Panel::processors(
        6,
        "figure6d",
        "Figure 6(d). WorldCup98, 110 MB of system memory",
        "worldcup98",
        110.0 * MB,
        1000,
    ),
    Panel::processors(7, "figure7a", "Figure 7(a). Penn State CSE, 1 GB of system memory", CSE, GB, 1000),
    Panel::processors(
        7,
        "figure7b",
        "Figure 7(b). Penn State CSE, 2 GB of system memory",
        CSE,
        2.0 * GB,
        1000,
    ),
    Panel::processors(
        7,
        "figure7c",
        "Figure 7(c). Penn State CSE, 3 GB of system memory",
        CSE,
        3.0 * GB,
        1000,
    ),
    Panel::processors(
        7,
        "figure7d",
        "Figure 7(d). Penn State CSE, 5 GB of system memory",
        CSE,
        5.0 * GB,
        1000,
    ),
    Panel::processors(8, "figure8a", "Figure 8(a). Penn State CSE, 500 clients", CSE, 2.0 * GB, 500),
    Panel::processors(8, "figure8b", "Figure 8(b). Penn State CSE, 1,500 clients", CSE, 2.0 * GB, 1500),
    Panel::processors(8, "figure8c", "Figure 8(c). Penn State CSE, 2,000 clients", CSE, 2.0 * GB, 2000),
    Panel::processors(8, "figure8d", "Figure 8(d). Penn State CSE, 2,500 clients", CSE, 2.0 * GB, 2500),
];

/// A disk's block. By its text, the paper reads files of 124 KB with one access; its axes say otherwise. With a warm LRU cache
/// of 1 GB, Penn State CSE misses 3 % of its requests at the skew that Table 5 needs. One access for each miss would leave the
/// disk idle and give 2,600/s, but Figure 7(a) ends at 700. UC Berkeley would reach 2,300/s, but Figure 6(b) ends at 1,400. An
/// access for each 8 KB, the block of the file systems of that time, fits both axes.
const BLOCK_KB: f64 = 8.192;

/// Requests for each client before measuring begins. If the disk is the bottleneck, nearly all clients end up in its queue, one
/// miss at a time. Until then, servers that answer hits meanwhile look faster than they are.
pub(super) const SETTLING_PER_CLIENT: u64 = 200;

/// What is the same in all panels: our reading of the paper, and whatever is to be assumed instead.
pub(super) fn base(effort: Effort, assumed: &[Setting]) -> Result<Scenario, Failure> {
    let mut base = Scenario::default();
    base.machine.disks = vec![Disk { block_kb: Some(BLOCK_KB), ..Disk::FAST }];
    base.run.measured_requests = effort.measured_requests();
    Draft::from(&base).with(assumed)
}

/// How much of the paper to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    Quick,
    Full,
}

/// One run of a panel.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub panel: &'static Panel,
    pub architecture: Architecture,
    pub x: u32,
    pub scenario: Scenario,
}

impl Effort {
    pub(super) fn seeds(self) -> u64 {
        match self {
            Effort::Quick => 1,
            Effort::Full => 3,
        }
    }

    fn processors(self) -> Vec<u32> {
        match self {
            Effort::Quick => vec![1, 3, 5, 8, 9, 12, 16],
            Effort::Full => (1..=16).collect(),
        }
    }

    fn data_sets_mb(self) -> Vec<u32> {
        match self {
            Effort::Quick => vec![20, 60, 90, 120, 150],
            Effort::Full => (20..=150).step_by(10).collect(),
        }
    }

    fn clients(self) -> Vec<u32> {
        match self {
            Effort::Quick => vec![10, 100, 200, 500],
            Effort::Full => vec![5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500],
        }
    }

    fn measured_requests(self) -> NonZeroU32 {
        let requests = match self {
            Effort::Quick => 150_000,
            Effort::Full => 300_000,
        };
        NonZeroU32::new(requests).expect("it is not 0")
    }
}

impl Panel {
    const fn processors(
        figure: u8,
        name: &'static str,
        title: &'static str,
        trace: &'static str,
        system_bytes: f64,
        clients: u32,
    ) -> Panel {
        Panel { name, figure, title, trace, varies: Varies::Processors { system_bytes, clients } }
    }

    const fn validation(name: &'static str, title: &'static str, varies: Varies) -> Panel {
        Panel { name, figure: 5, title, trace: "clarknet", varies }
    }

    /// Figure 5 was there before the pipeline.
    pub(super) fn architectures(&self) -> &'static [Architecture] {
        match self.varies {
            Varies::Processors { .. } => &Architecture::ALL,
            Varies::DataSet | Varies::Clients => &Architecture::ALL[..4],
        }
    }

    pub(super) fn axes(&self) -> (Axis, Axis) {
        match self.varies {
            Varies::Processors { .. } => {
                (Axis::linear("number of PEs", ""), Axis::linear("throughput", "requests/s"))
            }
            Varies::DataSet => (Axis::linear("data set size", "MB"), Axis::linear("bandwidth", "Mb/s")),
            Varies::Clients => {
                (Axis::linear("number of simultaneous clients", ""), Axis::linear("bandwidth", "Mb/s"))
            }
        }
    }

    /// All of its runs, those with the same workload beside each other.
    pub(super) fn cells(&'static self, effort: Effort, base: &Scenario) -> Vec<Cell> {
        let xs = match self.varies {
            Varies::Processors { .. } => effort.processors(),
            Varies::DataSet => effort.data_sets_mb(),
            Varies::Clients => effort.clients(),
        };
        let mut cells = Vec::new();
        for seed in 1..=effort.seeds() {
            for &x in &xs {
                for &architecture in self.architectures() {
                    let mut scenario = self.scenario(base, architecture, x);
                    scenario.run.seed = seed;
                    let settling = SETTLING_PER_CLIENT * u64::from(scenario.run.clients);
                    scenario.run.settling_requests.get_or_insert(settling);
                    cells.push(Cell { panel: self, architecture, x, scenario });
                }
            }
        }
        cells
    }

    /// One run, but for its seed and length: what the panel says, and the rest from `base`.
    fn scenario(&self, base: &Scenario, architecture: Architecture, x: u32) -> Scenario {
        let trace = PaperTrace::named(self.trace).expect("panels name traces that there are");
        let mut scenario = Scenario { architecture, ..base.clone() };
        match self.varies {
            Varies::Processors { system_bytes, clients } => {
                scenario.machine.processors = x;
                scenario.machine.memory_mb = system_bytes / 1e6;
                scenario.run.clients = clients;
                scenario.machine.data_cache_mb = Some(data_cache_bytes(scenario.parameters()) / 1e6);
                scenario.workload = Source::Trace(trace);
            }
            Varies::DataSet | Varies::Clients => {
                let (data_set_mb, clients) = match self.varies {
                    Varies::Clients => (90, x),
                    _ => (x, 64),
                };
                // Section 5.3: a cache of 100 MB and the slow disk. Flash's evaluation had 32 processes and 64 threads.
                scenario.machine.data_cache_mb = Some(100.0 * MB / 1e6);
                scenario.machine.disks = vec![Disk {
                    block_kb: base.machine.disks.first().and_then(|disk| disk.block_kb),
                    ..Disk::SLOW
                }];
                scenario.server.processes_per_processor = 32;
                scenario.server.threads_per_processor = 64;
                scenario.run.clients = clients;
                let data_set_mb = f64::from(data_set_mb) * MB / 1e6;
                scenario.workload = Source::Truncated(Truncated { trace, data_set_mb });
            }
        }
        scenario
    }
}

#[cfg(test)]
mod tests;
