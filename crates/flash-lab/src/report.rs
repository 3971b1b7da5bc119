//! The report: one page about every plan that was run, with figures, tables, findings and circumstances.
//!
//! The page stands alone: it asks for nothing, runs no script, and may be mailed or printed. It says what records say and
//! measures nothing; what it draws is laid out by `flash-figure`.

mod drawing;
mod page;
mod section;

use std::path::Path;

use crate::experiment::{Experiment, ExperimentError};

/// The page about everything that was run below `out`, in HTML.
pub fn report(out: &Path) -> Result<String, ExperimentError> {
    Ok(page::page(&Experiment::all(out)?).into_string())
}
