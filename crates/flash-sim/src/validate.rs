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

use std::path::Path;

use flash_rig::Facts;
use flash_sim::Parameters;

use crate::calibrate::{Effort, calibrate};
use crate::flags;
use crate::output;
use crate::run::print;
use crate::scenario::Draft;
use crate::testbed::Testbed;
use flash_cli::Failure;

use self::cell::{Grid, QUICK, Validation, WHOLE};
use self::site::Site;

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
