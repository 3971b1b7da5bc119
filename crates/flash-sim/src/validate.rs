//! `flash sim validate`: what the models predict, beside what real servers do on this machine under the same load.
//!
//! Every architecture serves synthetic sites of several sizes to several numbers of clients, on one processor, with memory
//! that the largest site does not fit into and a disk that does a known number of reads a second. The models get that
//! machine, these sites, and the costs of a parameter file; nothing is fitted to the outcome.

mod measure;
mod predict;
mod site;
mod table;

use std::path::Path;
use std::time::Duration;

use flash_rig::Facts;
use flash_sim::{Architecture, Parameters};
use serde::Serialize;

use crate::calibrate::{Effort, calibrate};
use crate::failure::Failure;
use crate::flags;
use crate::output;
use crate::run::print;
use crate::scenario::Draft;
use crate::testbed::Testbed;

use self::site::Site;

/// What the server and the pages that it reads may take.
const MEMORY_BYTES: u64 = 128 << 20;
/// Read-ahead is how much of a file is read at a time.
const READS_PER_SECOND: u32 = 2_000;
const READ_AHEAD_KB: u32 = 128;
/// For every file of the largest site, so that names are no matter.
const PATH_ENTRIES: u32 = 16_384;
/// Threads of mt and processes of mp: a client that stays has one to itself.
const RUNNERS: u32 = 64;
/// Of each kind: amped may have 64 in all, a pipeline has one.
const AMPED_HELPERS: u32 = 32;

/// What is compared.
#[derive(Clone, Debug)]
struct Grid {
    data_sets_mb: &'static [u32],
    clients: &'static [u32],
    measured: Duration,
    simulated_requests: u32,
}

const WHOLE: Grid = Grid {
    data_sets_mb: &[40, 150, 400],
    clients: &[8, RUNNERS],
    measured: Duration::from_secs(3),
    simulated_requests: 200_000,
};
const QUICK: Grid = Grid {
    data_sets_mb: &[40, 400],
    clients: &[RUNNERS],
    measured: Duration::from_secs(1),
    simulated_requests: 50_000,
};

/// How a server did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Figures {
    requests_per_s: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// The server's processor.
    busy: f64,
    /// Of the disk.
    reads_per_request: f64,
}

/// One server under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Cell {
    architecture: Architecture,
    data_set_mb: u32,
    clients: u32,
    /// What the server itself held before it was asked for anything, which is not in the models.
    server_mb: f64,
    /// Requests that the real server did not answer: where memory ends, the kernel kills.
    failed: u64,
    measured: Figures,
    predicted: Figures,
}

#[derive(Clone, Debug, Serialize)]
struct Validation {
    facts: Facts,
    parameters: Parameters,
    cells: Vec<Cell>,
}

pub(crate) fn run(flags: &flags::Validate) -> Result<(), Failure> {
    let (flash, disk) = (flags.flash.as_deref(), flags.disk.as_deref());
    let parameters = match &flags.parameters {
        Some(path) => read(path)?,
        None => {
            eprintln!("no --parameters: this machine is measured first");
            Draft::read("what was measured", &calibrate(flash, disk, Effort::WHOLE)?.text())?
                .with(&[])?
                .parameters()
        }
    };
    let grid = if flags.quick { QUICK } else { WHOLE };
    let validation = validate(flash, disk, &grid, parameters)?;
    let text = table::markdown(&validation);
    print(&text);
    let folder = output::folder(&flags.out)?;
    output::write(&folder.join("validation.md"), &text)?;
    let json = serde_json::to_string_pretty(&validation).expect("plain values") + "\n";
    output::write(&folder.join("validation.json"), &json)
}

fn read(path: &Path) -> Result<Parameters, Failure> {
    Ok(Draft::read(&path.display().to_string(), &output::read(path)?)?.with(&[])?.parameters())
}

fn validate(
    flash: Option<&Path>,
    disk: Option<&Path>,
    grid: &Grid,
    parameters: Parameters,
) -> Result<Validation, Failure> {
    let sites: Vec<Site> = grid.data_sets_mb.iter().map(|&mb| Site::new(mb)).collect();
    let testbed = Testbed::take(flash, disk)?;
    let mut cells = measure::cells(&testbed, grid, &sites)?;
    let facts = Facts::collect(&testbed.folder("tree")?, Path::new("."));
    drop(testbed);
    eprintln!("predicting");
    for cell in &mut cells {
        let site = sites.iter().find(|site| site.data_set_mb == cell.data_set_mb).expect("it was served");
        cell.predicted = predict::figures(&parameters, site, cell, grid.simulated_requests)?;
    }
    Ok(Validation { facts, parameters, cells })
}
