//! A line of a configuration that is imported, as all syntaxes have it.

use std::path::{Path, PathBuf};

use crate::note::Source;

/// A directive, such as `listen 80`, with its block if it has one.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) source: Source,
}

/// Finds the files that an `include` names, in order, each with its text.
pub type Include<'i> = &'i dyn Fn(&Path) -> Result<Vec<(PathBuf, String)>, String>;
