//! Configurations of other servers, read and written anew as configurations of Flash.
//!
//! An import is a text, and a list of what was not taken to the letter: which line, why, what to do, and which requests that
//! concerns. The only I/O is to read files that are included. What Flash makes of the text is not known here.

#![forbid(unsafe_code)]

mod flash;
mod include;
pub mod nginx;
pub mod note;
mod pattern;

use std::fmt::Write;

use note::Note;

/// A configuration of Flash, and what it does not take over.
#[derive(Clone, Debug)]
pub struct Imported {
    pub text: String,
    pub notes: Vec<Note>,
    /// How many lines there were.
    pub directives: usize,
}

impl Imported {
    /// How many lines were taken.
    pub fn taken(&self) -> usize {
        let left = self.notes.iter().filter(|note| note.is_left);
        let mut lines: Vec<_> =
            left.filter_map(|note| note.source.as_ref()).map(|at| (&at.file, at.line)).collect();
        lines.sort_unstable();
        lines.dedup();
        self.directives.saturating_sub(lines.len())
    }

    /// The whole file, with the list as comments at its end.
    pub fn file(&self) -> String {
        let mut file = self.text.clone();
        let [left, different] =
            [true, false].map(|is_left| self.notes.iter().filter(move |note| note.is_left == is_left));
        for (heading, notes) in
            [("Not taken", left.collect::<Vec<_>>()), ("Taken, with a difference", different.collect())]
        {
            if notes.is_empty() {
                continue;
            }
            _ = write!(file, "\n# {heading}:\n#\n");
            for note in notes {
                for line in note.to_string().lines() {
                    let line = line.replace(char::is_control, " ");
                    _ = writeln!(file, "# {line}");
                }
            }
        }
        file
    }
}
