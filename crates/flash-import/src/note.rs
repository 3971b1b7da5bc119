//! What an import tells its reader: where a line came from, what was not taken of it and why, and which requests that concerns.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A line of the configuration that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub file: Arc<Path>,
    pub line: usize,
    /// The directive, in one line.
    pub text: String,
}

/// Why nothing can be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub file: Arc<Path>,
    pub line: usize,
    pub why: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.why)
    }
}

impl std::error::Error for Error {}

/// A line that Flash does not follow to the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `None` for what holds everywhere.
    pub source: Option<Source>,
    /// The line was left out. Without it, it was taken, and some requests have another answer.
    pub is_left: bool,
    /// What is different and why, and what to do about it.
    pub text: String,
    pub concerns: Concerns,
}

/// The requests that may have another answer, and what is different in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concerns {
    /// The names of sites. All, if there is none.
    pub hosts: Vec<String>,
    pub paths: Paths,
    pub of: Of,
}

/// Parts of the paths of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// No request: what is different is in a log, or how fast something goes.
    None,
    All,
    Exact(String),
    /// This prefix, whatever follows.
    Begins(String),
    /// This part, wherever it is.
    Has(String),
    Ends(String),
    /// Below this prefix, and with this end.
    BelowEnds(String, String),
    /// A regular expression as nginx has it, and whether case counts.
    Matches(String, bool),
    /// Paths of folders, with and without a slash at their end.
    Folders,
    /// Paths that go on behind the name of a file.
    BelowFiles,
    /// Paths with a query.
    Queries,
    /// Paths that lead to no file.
    Missing,
    /// Requests without TLS.
    Insecure,
    /// All methods but GET and HEAD.
    OtherMethods,
    /// Targets that are not written in the one canonical way.
    Uncanonical,
    /// Paths with capital letters.
    Capitals,
    Any(Vec<Paths>),
    Not(Box<Paths>),
}

/// What may be different in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Everything,
    /// The status, and the body of a page that tells it.
    Status,
    CacheControl,
    Type,
    Location,
}

impl Concerns {
    pub(crate) fn nothing() -> Self {
        Self { hosts: Vec::new(), paths: Paths::None, of: Of::Everything }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Source { file, line, text }) = &self.source {
            write!(f, "{}:{line}: {text}\n    ", file.display())?;
        }
        f.write_str(&self.text)
    }
}
