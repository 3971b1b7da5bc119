//! `flash sim validate` compares the models' predictions with real servers on this machine, under the same load.
//!
//! Every architecture serves synthetic sites of several sizes to several numbers of clients, on one processor. The largest site
//! does not fit into memory, and the disk does a known number of reads a second. The models get the same machine and sites, and
//! the costs of a parameter file. Nothing is fitted to the results.

mod cell;
mod measure;
mod predict;
mod site;
mod table;

use std::path::{Path, PathBuf};

use flash_rig::Facts;
use flash_sim::Parameters;

use crate::calibrate::{Effort, calibrate};
use crate::flags;
use crate::output;
use crate::scenario::Draft;
use crate::testbed::Testbed;
use flash_cli::{Failure, print};

use self::cell::{Cell, FreeDisk, Grid, Validation};
use self::site::Site;

pub(crate) fn run(flags: &flags::Validate) -> Result<(), Failure> {
    let (flash, disk) = (flags.flash.as_deref(), flags.disk.as_deref());
    let parameters = match &flags.parameters {
        Some(path) => read(path)?,
        None => {
            flash_cli::say("no --parameters: this machine is measured first");
            Draft::read("what was measured", &calibrate(flash, disk, Effort::WHOLE)?.text())?
                .with(&[])?
                .parameters()
        }
    };
    let mut grid = if flags.quick { Grid::quick() } else { Grid::whole() };
    if !flags.data_set_mb.is_empty() {
        grid.data_sets_mb.clone_from(&flags.data_set_mb);
    }
    if !flags.architecture.is_empty() {
        grid.architectures.clone_from(&flags.architecture);
    }
    let mut cells = Vec::new();
    let (facts, disk) = match flags.measured.is_empty() {
        true => measured(flash, disk, &grid, &mut cells)?,
        false => recalled(&flags.measured, &mut cells)?,
    };
    for cell in &mut cells {
        let site = Site::new(cell.data_set_mb);
        cell.predicted = predict::figures((&parameters, &disk), &site, cell, grid.simulated_requests)?;
    }
    let validation = Validation { facts, disk, parameters, cells };
    let text = table::markdown(&validation);
    let folder = output::folder(&flags.out)?;
    output::write(&folder.join("validation.md"), &text)?;
    let json = serde_json::to_string_pretty(&validation).expect("plain values") + "\n";
    output::write(&folder.join("validation.json"), &json)?;
    print(text)
}

fn read(path: &Path) -> Result<Parameters, Failure> {
    Ok(Draft::read(&path.display().to_string(), &output::read(path)?)?.with(&[])?.parameters())
}

/// Measures servers on this machine.
fn measured(
    flash: Option<&Path>,
    disk: Option<&Path>,
    grid: &Grid,
    cells: &mut Vec<Cell>,
) -> Result<(Facts, FreeDisk), Failure> {
    let sites: Vec<Site> = grid.data_sets_mb.iter().map(|&mb| Site::new(mb)).collect();
    let testbed = Testbed::take(flash, disk)?;
    let disk = measure::cells(&testbed, grid, &sites, cells)?;
    Ok((Facts::collect(&testbed.folder("tree")?, Path::new(".")), disk))
}

/// Takes what earlier runs measured.
fn recalled(files: &[PathBuf], cells: &mut Vec<Cell>) -> Result<(Facts, FreeDisk), Failure> {
    let mut last = None;
    for path in files {
        let validation: Validation = serde_json::from_str(&output::read(path)?)
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
        cells.extend(validation.cells);
        last = Some((validation.facts, validation.disk));
    }
    Ok(last.expect("there is a file"))
}
