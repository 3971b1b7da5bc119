//! `flash lab export`: the results of plans as CSV, on standard output or as files.

use std::fs;

use anyhow::{Context as _, Result, bail};
use flash_cli::Failure;
use flash_lab::experiment::Experiment;
use flash_lab::export;

use crate::flags::ExportFlags;

pub(crate) fn export(flags: &ExportFlags) -> Result<()> {
    let experiments = chosen(flags)?;
    match &flags.into {
        None => match &experiments[..] {
            [one] => Ok(flash_cli::print(&export::tables(one)[0].csv)?),
            several => {
                let count = several.len();
                bail!(Failure::Usage(format!(
                    "{} holds the results of {count} plans ({}): name one, or write a file for each with --into DIR",
                    flags.out.display(),
                    names(several)
                )))
            }
        },
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            for table in experiments.iter().flat_map(export::tables) {
                let path = folder.join(table.file_name);
                fs::write(&path, table.csv).with_context(|| format!("cannot write {}", path.display()))?;
                flash_cli::print(format!("{}\n", path.display()))?;
            }
            Ok(())
        }
    }
}

/// The experiments that the command names, or all of them. Each has a measurement at least.
fn chosen(flags: &ExportFlags) -> Result<Vec<Experiment>> {
    let mut all = Experiment::all(&flags.out)?;
    let there = names(&all);
    let stranger = flags.plans.iter().find(|name| all.iter().all(|one| one.plan.name != **name));
    if let Some(name) = stranger {
        bail!("{} has no results of '{name}', but of {there} (see flash lab run)", flags.out.display());
    }
    all.retain(|one| flags.plans.is_empty() || flags.plans.contains(&one.plan.name));
    if let Some(empty) = all.iter().find(|one| one.data.measurements.is_empty()) {
        let name = &empty.plan.name;
        bail!("nothing of '{name}' was measured yet: flash lab run {name} goes on with it");
    }
    Ok(all)
}

fn names(experiments: &[Experiment]) -> String {
    experiments.iter().map(|one| &*one.plan.name).collect::<Vec<_>>().join(", ")
}
