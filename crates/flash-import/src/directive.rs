//! A line of a configuration that is imported, as all syntaxes have it.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::note::Source;
use crate::pattern::Shape;

/// A directive, such as `listen 80`, with its block if it has one.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) source: Source,
    /// Words of it are those that hold where a variable of the environment is not set.
    pub(crate) has_defaults: bool,
    /// What it covers, if it is a section: read once, however many places ask.
    pub(crate) covered: OnceCell<Covered>,
}

/// What a section says that it covers.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) shapes: Vec<Shape>,
    /// It covers nothing else.
    pub(crate) is_all: bool,
}

impl Directive {
    pub(crate) fn new(
        name: String,
        words: Vec<String>,
        block: Option<Vec<Directive>>,
        source: Source,
    ) -> Self {
        Self { name, words, block, source, has_defaults: false, covered: OnceCell::new() }
    }
}

/// Directives in one line, as tests of syntaxes compare them.
#[cfg(test)]
pub(crate) fn shown(directives: &[Directive]) -> String {
    let one = |of: &Directive| {
        let words: String = of.words.iter().map(|word| format!(" <{word}>")).collect();
        let block = of.block.as_ref().map(|block| format!(" {{ {}}}", shown(block))).unwrap_or_default();
        format!("{}:{}{words}{block} ", of.source.line, of.name)
    };
    directives.iter().map(one).collect()
}

/// Finds the files that an `include` names, in order, each with its text.
pub type Include<'i> = &'i dyn Fn(&Path) -> Result<Vec<(PathBuf, String)>, String>;
