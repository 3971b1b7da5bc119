//! `flash helper` beside a server that has its files found and opened by it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use flash_system::find_own;

use crate::machine::Machine;
use crate::process::Process;
use crate::setup::{Setup, wrapped};

/// Whose rights the workers of peers have.
pub(crate) const USER: &str = "nobody";

impl Machine {
    /// Starts `flash helper` for the server at this port, in the server's limits.
    pub(crate) fn start_helper(&self, setup: &Setup, port: u16) -> Result<Process> {
        let socket = helper_socket(setup.work, port);
        let mut command = wrapped(&find_own("flash")?, setup.group);
        command.arg("helper").arg(setup.root).arg("--listen").arg(format!("unix:{}", socket.display()));
        command.args(["--allow-user", USER]).stdin(Stdio::null());
        let name = format!("helper-{port}");
        let mut process = Process::start(&self.journal, command, setup.cpus, setup.work, &name)?;
        let accepts = || socket.exists();
        process.wait_ready(&socket.display().to_string(), accepts).context("starting flash helper")?;
        Ok(process)
    }
}

/// Where the daemon of the server at this port listens.
pub(crate) fn helper_socket(work: &Path, port: u16) -> PathBuf {
    work.join(format!("helper-{port}.sock"))
}
