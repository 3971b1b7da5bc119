//! A plan as it was run, with all that came of it: what the report and the export are made of.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::data::Data;
use crate::finding::{self, Judgement};
use crate::plan::{Finding, Plan, PlanError, built_in};
use crate::record::RecordError;

/// A plan as it was run, and what came of it.
#[derive(Debug)]
pub struct Experiment {
    pub plan: Plan,
    pub data: Data,
}

/// Why experiments cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error("{}: no plan has been run there (see flash lab run)", path.display())]
    Nothing { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}, plan_text: {source}", path.display())]
    Plan { path: PathBuf, source: PlanError },
}

impl Experiment {
    /// Everything that was run below `out`, one at least.
    pub fn all(out: &Path) -> Result<Vec<Experiment>, ExperimentError> {
        let mut experiments = Vec::new();
        for name in folders(out)? {
            let Some(data) = Data::read(out, &name)? else { continue };
            let path = out.join(&name).join("run.json");
            let plan = Plan::parse(&name, &data.run.plan_text)
                .map_err(|source| ExperimentError::Plan { path, source })?;
            experiments.push(Experiment { plan, data });
        }
        if experiments.is_empty() {
            return Err(ExperimentError::Nothing { path: out.to_owned() });
        }
        Ok(experiments)
    }

    pub(crate) fn findings(&self) -> Vec<(&Finding, Judgement)> {
        finding::judge(&self.plan, &self.data)
    }
}

/// Folders that hold records: those of plans that come along in their order, others after them by name.
fn folders(out: &Path) -> Result<Vec<String>, ExperimentError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ExperimentError::Nothing { path: out.to_owned() },
        _ => ExperimentError::Io { path: out.to_owned(), source },
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(out).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join("run.json").is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    let place = |name: &String| built_in().iter().position(|plan| plan.name == name).unwrap_or(usize::MAX);
    names.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.cmp(b)));
    Ok(names)
}
