//! The process monitor: a thread of the server that knows all programs that the server runs.
//!
//! It has the fork helper start programs, calls back with the result, reads what programs write to standard error, and
//! has them killed. No caller waits for it: requests are queued. If the fork helper is killed, the monitor registers
//! with the next one. Programs that run go on; requests that were not started are sent again; requests that may have
//! been started fail.

mod monitor_thread;
mod request;
mod stderr_pipe;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use self::monitor_thread::MonitorThread;
use self::request::{CommandChannel, MonitorCommand};
pub use self::request::{Limits, ProcessHandle, ProcessObserver, SpawnRequest, Started, Stdio};
use crate::fork_helper_handle::ForkHelper;
use crate::reporter::Reporter;

/// The handle. Dropping it ends all programs.
#[derive(Debug)]
pub struct ProcessMonitor {
    commands: Arc<CommandChannel>,
    thread: Option<JoinHandle<()>>,
}

impl ProcessMonitor {
    /// Starts the monitor thread of this process.
    ///
    /// # Errors
    /// When the process cannot have another thread, or a descriptor more.
    pub fn start(helper: &ForkHelper, limits: Limits, reporter: Arc<Reporter>) -> io::Result<Self> {
        let commands = Arc::new(CommandChannel::new()?);
        let mut monitor = MonitorThread::new(Arc::clone(&commands), helper.rendezvous()?, limits, reporter)?;
        let thread = thread::Builder::new().name("process-monitor".into()).spawn(move || monitor.run())?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Has a program started. Never blocks.
    pub fn spawn(&self, request: SpawnRequest) {
        self.commands.channel.send(MonitorCommand::Spawn(Box::new(request)));
    }
}

impl Drop for ProcessMonitor {
    fn drop(&mut self) {
        self.commands.channel.send(MonitorCommand::Close);
        if let Some(thread) = self.thread.take() {
            // It has said why, if it ended otherwise.
            let _ = thread.join();
        }
    }
}
