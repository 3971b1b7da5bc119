//! What is wrong with a file, and where.

use std::ops::Range;

/// An error of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the file that it is about. `None` if it is about the whole file.
    pub place: Option<Range<usize>>,
    pub message: String,
    /// What the mark says, such as the nearest known name.
    pub label: String,
}

impl Problem {
    pub fn at(place: Range<usize>, message: String, label: String) -> Problem {
        Problem { place: Some(place), message, label }
    }

    pub fn of_file(message: String) -> Problem {
        Problem { place: None, message, label: String::new() }
    }
}
