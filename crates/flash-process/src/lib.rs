//! Processes behind a server: the supervisor, which starts and watches all others by their roles, and the roles that
//! serve programs and logs. The [`Upgrader`] executes the next server in an upgrade.
//!
//! A [`Supervisor`] replaces processes that end. The [`SupervisorProcess`] is one that a server with threads has start
//! processes for it. All talk over one [`ipc`].
//!
//! [`ForkHelper`] is a small process that starts every program, so that the price of a start does not grow with the server.
//! Each server process has a [`ProcessMonitor`], a thread that sends it requests. The monitor reads how programs end, and their
//! standard error. It also tells the fork helper to end programs that no client needs any more. Responses of programs do not
//! pass through this crate.

#![forbid(unsafe_code)]

pub mod child;
pub mod codec;
mod earlier_servers;
mod fork_helper;
mod fork_helper_handle;
pub mod hot_paths;
pub mod ipc;
mod line_limiter;
pub mod name_sources;
pub mod predecessor;
pub mod private_socket;
mod privileged_opener;
mod process_monitor;
mod protocol;
mod reporter;
mod restart;
mod role;
mod script;
mod service_manager;
mod setup;
mod start_record;
mod supervisor;
mod supervisor_process;
mod upgrader;

pub use child::log;
pub use earlier_servers::{EarlierServer, EarlierServers};
pub use flash_os::spawn::{Limit, Resource};
pub use fork_helper_handle::{ForkHelper, descriptor_limit};
pub use hot_paths::HotPath;
pub use line_limiter::LineLimiter;
pub use predecessor::Predecessor;
pub use privileged_opener::PrivilegedOpener;
pub use privileged_opener::named_files::{NamedFiles, ReadNames};
pub use process_monitor::{
    Limits, ProcessHandle, ProcessMonitor, ProcessObserver, SpawnRequest, Started, Stdio,
};
pub use protocol::{ExitStatus, ProgramRef};
pub use reporter::{LogLine, Reporter, StderrLine};
pub use role::{OnEnd, Role};
pub use service_manager::ServiceManager;
pub use setup::{Command, Folder, Setup};
pub use supervisor::{Child, Lost, Supervisor};
pub use supervisor_process::{RequestedRole, SupervisorProcess, SupervisorSetup, supervise};
pub use upgrader::{Authorization, Upgrade, UpgradeRequest, Upgrader};
