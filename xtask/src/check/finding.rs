//! What a rule says that is broken.

use std::fmt;

use super::source::Source;

/// Something that is not as it must be, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// `crates/flash-core/src/path.rs:12`, or a crate's name where it is about no line.
    pub(super) place: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn at(source: &Source, line: usize, message: impl Into<String>) -> Finding {
        Finding { place: format!("{}:{line}", source.path), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
