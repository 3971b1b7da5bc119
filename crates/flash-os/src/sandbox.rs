//! Rights that a process gives up for good: names of the filesystem, and system calls. They hold for the calling thread and for all
//! threads and processes that it starts later, so a process confines itself while it has one thread.
//!
//! Open files stay open. Which process gives up which rights is not decided here.

use std::path::PathBuf;

use crate::system;

/// What a process does once it is confined. It keeps the system calls of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It serves accepted connections, from memory and from files that others have opened.
    Serve,
    /// It walks and reads.
    Read,
    Both,
}

/// Forbids all names of the filesystem, except for reading below these folders. Where the system can, also connections, and other
/// processes' sockets.
///
/// # Errors
/// What the system lacks.
pub fn forbid_names_but(readable: &[PathBuf]) -> Result<(), String> {
    system::sandbox::forbid_names_but(readable)
}

/// Forbids all system calls but those of this work. One that is refused is an error, and ends no process.
///
/// # Errors
/// What the system lacks.
pub fn forbid_calls_but(work: Work) -> Result<(), String> {
    system::sandbox::forbid_calls_but(work != Work::Read, work != Work::Serve)
}
