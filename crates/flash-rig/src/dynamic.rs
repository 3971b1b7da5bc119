//! Programs that answer requests behind a server: a folder of CGI programs, which the server starts, and php-fpm. php-fpm runs
//! beside the server as a process of the rig's, the same for every server.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use flash_system::{Missing, find_newest};

use crate::machine::Machine;
use crate::process::Process;
use crate::setup::{Setup, wrapped};

/// Its processes, all there from the start. Servers that keep connections open to it keep as many.
pub(crate) const PHP_PROCESSES: usize = 16;

/// A php-fpm that accepts connections. Dropping it ends it.
pub struct Php {
    pub socket: PathBuf,
    pub process: Process,
}

impl Php {
    /// Where its program is, which has its version in its name.
    ///
    /// # Errors
    /// When it is missing, with the package that has it.
    pub fn find() -> Result<PathBuf, Missing> {
        find_newest("php-fpm")
    }
}

impl Machine {
    /// Starts php-fpm with the setup's processors and limits, and waits until it accepts.
    ///
    /// # Errors
    /// When it is [`Missing`], or ends or is silent, with its last words.
    pub fn start_php(&self, setup: &Setup) -> Result<Php> {
        let program = Php::find()?;
        let socket = setup.work.join("php-fpm.sock");
        let file = setup.work.join("php-fpm.conf");
        let place = socket.to_str().with_context(|| format!("{} is not UTF-8", socket.display()))?;
        let text = include_str!("../peers/php-fpm.conf")
            .replace("@SOCKET@", place)
            .replace("@PROCESSES@", &PHP_PROCESSES.to_string());
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        let mut command = wrapped(&program, setup.group);
        command.args(["--nodaemonize", "--fpm-config"]).arg(&file).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-to-run-as-root");
        }
        let mut process = Process::start(&self.journal, command, setup.cpus, setup.work, "php-fpm")?;
        process
            .wait_ready("its socket", || UnixStream::connect(&socket).is_ok())
            .context("starting php-fpm")?;
        Ok(Php { socket, process })
    }
}

/// A program that answers for `.php` says of itself: its version, in its own words.
///
/// # Errors
/// When it cannot be run, or says nothing.
pub fn php_version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("-v").output();
    let output = output.with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().with_context(|| format!("{} -v prints nothing", program.display()))?.to_owned())
}
