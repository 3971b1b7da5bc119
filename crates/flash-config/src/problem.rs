//! What is wrong with a file, and where.

use std::ops::Range;

/// Bytes of one of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's number: 0, or that of an included one.
    pub(crate) file: usize,
    pub(crate) bytes: Range<usize>,
}

/// An error of the file, or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where the file has it. `None` if it is about the whole file.
    pub place: Option<Location>,
    pub message: String,
    /// What the mark says, such as the nearest known name.
    pub label: String,
    /// It is no error.
    pub is_warning: bool,
}

impl Problem {
    pub fn at(place: Location, message: String, label: String) -> Problem {
        Problem { place: Some(place), message, label, is_warning: false }
    }

    pub fn of_file(message: String) -> Problem {
        Problem { place: None, message, label: String::new(), is_warning: false }
    }

    #[must_use]
    pub fn into_warning(self) -> Problem {
        Problem { is_warning: true, ..self }
    }
}
