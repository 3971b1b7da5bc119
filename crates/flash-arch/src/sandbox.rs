//! The sandbox: the rights that a process gives up for good before it reads requests or files.
//!
//! The process that serves keeps its sockets, memory, and the files that others have opened for it. It can open no
//! name, start no program, and make no connection. A helper process can read below the folders of its site, and send
//! what it read to the process that asked. On Linux, Landlock takes away the filesystem, and seccomp every system call
//! that is not needed. A refused call fails with an error and kills no process, so a library that tries a new call can
//! still use an old one. How that is done, and which calls are needed, [`flash_os::sandbox`] knows.
//!
//! Both hold for the calling thread and for all threads and processes that it starts later. So a process confines
//! itself while it has one thread. Which processes are confined, and whether a server runs with less, is decided
//! elsewhere.

use std::fmt;
use std::path::PathBuf;

use flash_os::sandbox::{Work, confine, confine_to};

/// The rights that this kernel could not take away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unenforced(Vec<String>);

/// Confines the process that serves.
///
/// # Errors
/// If a part was not possible. All other parts hold.
pub fn confine_server() -> Result<(), Unenforced> {
    report(confine(Work::Serve, &[]))
}

/// Confines a helper process to reading below these folders.
///
/// # Errors
/// As above.
pub fn confine_helper(readable: &[PathBuf]) -> Result<(), Unenforced> {
    report(confine(Work::Read, readable))
}

/// Confines the daemon of `flash helper`, which accepts askers, and reads below these folders with threads of its own.
///
/// # Errors
/// As above.
pub fn confine_daemon(readable: &[PathBuf]) -> Result<(), Unenforced> {
    report(confine(Work::Both, readable))
}

/// Confines the process that asks an authority for certificates: it connects, reads below some folders, and changes what is below
/// others.
///
/// # Errors
/// As above.
pub fn confine_client(readable: &[PathBuf], writable: &[PathBuf]) -> Result<(), Unenforced> {
    report(confine_to(Work::Connect, readable, writable))
}

/// Confines the process that connects for a server: it reads below some folders, and makes sockets below others.
///
/// # Errors
/// As above.
pub fn confine_connector(readable: &[PathBuf], sockets: &[PathBuf]) -> Result<(), Unenforced> {
    report(confine_to(Work::ConnectForOthers, readable, sockets))
}

fn report(results: [Result<(), String>; 2]) -> Result<(), Unenforced> {
    let gaps: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if gaps.is_empty() { Ok(()) } else { Err(Unenforced(gaps)) }
}

impl fmt::Display for Unenforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", and "))
    }
}

impl std::error::Error for Unenforced {}

#[cfg(test)]
mod tests;
