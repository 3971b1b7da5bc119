//! What a run is made on and with: the machine, the servers that are there with their versions, and those that are not.

use std::path::Path;

use anyhow::Result;
use flash_rig::{Facts, ServerSpec};

use crate::plan::ServerEntry;
use crate::record::{Machine, Measured, Missing};

/// The machine, with its disk below `work`.
pub fn machine(work: &Path) -> Machine {
    // Programs lie in their checkout, as a rule.
    let us = std::env::current_exe().unwrap_or_default();
    let facts = Facts::collect(work, us.parent().unwrap_or(Path::new("/")));
    let disk = facts.disk.map(|disk| {
        format!(
            "{} ({}, {})",
            disk.name,
            disk.kind,
            disk.filesystem.as_deref().unwrap_or("an unknown filesystem")
        )
    });
    Machine {
        processor: facts.processor.unwrap_or_default(),
        processors: facts.processors as u32,
        memory_mb: facts.memory_bytes.unwrap_or_default() / 1_000_000,
        kernel: facts.kernel,
        disk: disk.unwrap_or_default(),
        lab: env!("CARGO_PKG_VERSION").to_owned(),
        commit: facts.commit,
    }
}

/// Those of the servers that are there, with their versions, and those that are not. With `install`, packages that are
/// missing are installed first. `flash` is the Flash to measure, where it is not the one beside this program.
///
/// # Errors
/// If a server's name is unknown, or packages cannot be installed.
pub fn servers<'a>(
    entries: impl Iterator<Item = &'a ServerEntry>,
    flash: Option<&Path>,
    install: bool,
) -> Result<(Vec<Measured>, Vec<Missing>)> {
    let specs = entries.map(|entry| Ok((entry, spec(entry)?))).collect::<Result<Vec<_>>>()?;
    if install {
        let missing = specs.iter().filter_map(|(_, spec)| spec.find().err());
        let mut packages: Vec<&str> = missing.filter_map(|missing| missing.package).collect();
        packages.sort_unstable();
        packages.dedup();
        if !packages.is_empty() {
            flash_rig::install(&packages)?;
        }
    }
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (entry, spec) in specs {
        let found = match flash.filter(|_| spec.is_flash()) {
            Some(program) => Ok(program.to_path_buf()),
            None => spec.find().map_err(anyhow::Error::from),
        };
        match found.and_then(|program| spec.variant.program.version(&program)) {
            Ok(version) => there.push(Measured { name: entry.name().to_owned(), version: Some(version) }),
            Err(error) => missing.push(Missing { name: entry.name().to_owned(), why: format!("{error:#}") }),
        }
    }
    Ok((there, missing))
}

/// A plan's server as the rig knows it.
pub(crate) fn spec(entry: &ServerEntry) -> Result<ServerSpec> {
    let (base, flags) = entry.base();
    let mut spec: ServerSpec = base.parse()?;
    spec.flags.extend_from_slice(flags);
    Ok(spec)
}
