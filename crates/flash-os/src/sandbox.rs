//! Rights that a process gives up for good: names of the filesystem, and system calls. They hold for the calling thread and for all
//! threads and processes that it starts later, so a process confines itself while it has one thread.
//!
//! Open files stay open. Which process gives up which rights is not decided here.

use std::path::PathBuf;

use crate::{memory_file, system};

/// What a process does once it is confined. It keeps the system calls of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It serves accepted connections, from memory and from files that others have opened.
    Serve,
    /// It walks and reads.
    Read,
    Both,
    /// It makes connections, and changes files below some folders.
    Connect,
    /// It makes connections for another process, and below some folders sockets, which lose their names at once.
    ConnectForOthers,
}

/// Forbids all names of the filesystem, except for reading below these folders; where the system can, also connections, and other
/// processes' sockets. Then forbids all system calls but those of this work: one that is refused is an error, and ends no process.
/// Tells of both what the system lacks.
pub fn confine(work: Work, readable: &[PathBuf]) -> [Result<(), String>; 2] {
    confine_to(work, readable, &[])
}

/// The same, except for changing what is below the folders of `writable`, too, as that work does.
pub fn confine_to(work: Work, readable: &[PathBuf], writable: &[PathBuf]) -> [Result<(), String>; 2] {
    let memory = memory_file::folder();
    let names = system::sandbox::forbid_names_but(work, readable, (writable, memory));
    // Files in memory that have names at first are made by calls that open and remove others, too. Where the first wall is missing, that
    // is part of the gap.
    [names, system::sandbox::forbid_calls_but(work, memory.is_some())]
}
