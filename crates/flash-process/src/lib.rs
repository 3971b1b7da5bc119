//! Processes behind a server: the supervisor of the fork helper, the fork helper itself, the process monitor, and the log
//! opener.
//!
//! [`ForkHelper`] is a small process that starts every program, so that the price of a start does not grow with the
//! server. In each server process a [`ProcessMonitor`], a thread, sends it requests, reads how programs end and what they
//! write to their standard error, and has the fork helper end those that have no user any more. What programs say in
//! answer to requests does not pass through here.

#![forbid(unsafe_code)]

pub mod child;
pub mod codec;
mod fork_helper;
pub mod ipc;
mod line_limiter;
mod log_opener;
mod process_monitor;
mod protocol;
mod reporter;
pub mod restart;
mod script;
mod setup;
mod start_record;
mod supervisor;

pub use flash_os::spawn::{Limit, Resource};
pub use line_limiter::LineLimiter;
pub use log_opener::LogOpener;
pub use process_monitor::{
    Limits, ProcessHandle, ProcessMonitor, ProcessObserver, SpawnRequest, Started, Stdio,
};
pub use protocol::{ExitStatus, ProgramRef};
pub use reporter::{LogLine, Reporter, StderrLine};
pub use setup::{Command, Folder, Setup};
pub use supervisor::ForkHelper;
