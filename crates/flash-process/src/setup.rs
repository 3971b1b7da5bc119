//! What a fork helper may run, and how much of it. It is fixed before the server accepts connections: an attacker who
//! takes the server over can have these programs run, and no others.

use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use flash_os::spawn::Limit;

#[derive(Clone, Debug)]
pub struct Setup {
    pub folders: Vec<Folder>,
    pub commands: Vec<Command>,
    /// Where commands begin, if their user may go there. Otherwise, and without one, where the fork helper is.
    pub commands_folder: Option<CString>,
    /// Scripts that run at once, over all server processes.
    pub running_max: usize,
    /// Requests that wait for one of them to end.
    pub queue_max: usize,
    pub queue_wait: Duration,
    /// What a program is given between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub limits: Vec<Limit>,
    /// How much a program is set back against the server when processors are short: 0 to 19.
    pub nice: i32,
}

/// A folder of scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Of URLs, without a slash at its end.
    pub prefix: Vec<u8>,
    /// Absolute.
    pub path: PathBuf,
}

/// A program that is no script's: what [`Command::program`] names, whatever the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Absolute.
    pub program: CString,
    /// The first is what the program is told as its own name.
    pub arguments: Vec<CString>,
}
