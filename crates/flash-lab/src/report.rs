//! The report: one page about every plan that was run, with figures, tables, findings and circumstances.
//!
//! The page stands alone: it asks for nothing, runs no script, and may be mailed or printed. It says what records say and
//! measures nothing; what it draws is laid out by `flash-figure`.

mod drawing;
mod experiment;
mod page;
mod section;

use std::path::{Path, PathBuf};
use std::{fs, io};

use self::experiment::Experiment;
use crate::data::Data;
use crate::plan::{Plan, PlanError, built_in};
use crate::record::RecordError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{}: no plan has been run there (see flash lab run)", path.display())]
    Nothing { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}, plan_text: {source}", path.display())]
    Plan { path: PathBuf, source: PlanError },
}

/// The page about everything that was run below `out`, in HTML.
pub fn report(out: &Path) -> Result<String, ReportError> {
    let mut experiments = Vec::new();
    for name in folders(out)? {
        let Some(data) = Data::read(out, &name)? else { continue };
        let path = out.join(&name).join("run.json");
        let plan =
            Plan::parse(&name, &data.run.plan_text).map_err(|source| ReportError::Plan { path, source })?;
        experiments.push(Experiment { plan, data });
    }
    if experiments.is_empty() {
        return Err(ReportError::Nothing { path: out.to_owned() });
    }
    Ok(page::page(&experiments).into_string())
}

/// Folders that hold records: those of plans that come along in their order, others after them by name.
fn folders(out: &Path) -> Result<Vec<String>, ReportError> {
    let failed = |source| ReportError::Io { path: out.to_owned(), source };
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
