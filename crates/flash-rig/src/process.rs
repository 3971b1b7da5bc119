//! A server as a process: started on its processors, ready when it accepts, ended by its own id with everything
//! that it started, whatever happens.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cpus::Cpus;
use crate::interrupt;
use crate::journal::{Change, Journal};
use crate::undo::Undo;
use crate::usage::{self, Memory, Usage};

const READY_SECONDS_MAX: u64 = 10;
/// Flash drains for ten.
const STOP_SECONDS_MAX: u64 = 12;
/// A process that hangs in a disk's wait goes when the disk lets it; nobody waits for that.
const KILL_SECONDS_MAX: u64 = 5;

/// A running server. Dropping it ends it and everything that it started.
pub struct Process {
    child: Child,
    stderr: PathBuf,
    ended: bool,
    _change: Change,
}

impl Process {
    /// Starts `command` on the server's processors; its standard error goes to a file in `work`.
    pub(crate) fn start(
        journal: &Arc<Journal>,
        mut command: Command,
        cpus: &Cpus,
        work: &Path,
        name: &str,
    ) -> Result<Process> {
        let stderr = work.join(format!("{name}.stderr"));
        command.stdout(Stdio::null()).stderr(File::create(&stderr)?);
        // A group of its own: a terminal's Ctrl-C is for us, who then end the server in order.
        command.process_group(0);
        let child = cpus.on_server(|| command.spawn())?;
        let mut child = child.with_context(|| format!("starting {:?}", command.get_program()))?;
        let pid = Pid::from_child(&child);
        // Only now is there a number to write down. What is not waited for yet keeps its number.
        let started_ticks = usage::started_ticks(pid).unwrap_or_default();
        let noted = journal.begin(Undo::End { pid: pid.as_raw_nonzero().get(), started_ticks });
        match noted {
            Ok(change) => Ok(Process { child, stderr, ended: false, _change: change }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error)
            }
        }
    }

    /// Waits until `accepts` says that the `place` where it listens accepts connections.
    pub(crate) fn wait_ready(&mut self, place: &str, accepts: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        while !accepts() {
            interrupt::check()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status}): {}", self.last_words());
            }
            if Instant::now() > end {
                bail!("it does not listen on {place} after {READY_SECONDS_MAX} s: {}", self.last_words());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The process and all its descendants, now.
    pub fn pids(&self) -> Vec<Pid> {
        usage::tree(self.pid())
    }

    /// What the process and all its descendants have used up to now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn usage(&self) -> Result<Usage> {
        usage::of(&self.pids())
    }

    /// What the process and all its descendants hold in memory now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn memory(&self) -> Result<Memory> {
        usage::memory(&self.pids())
    }

    /// An error, with its last words, once it has ended by itself.
    ///
    /// # Errors
    /// As said.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the server ended ({status}): {}", self.last_words()),
            None => Ok(()),
        }
    }

    /// What it has written to its standard error.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }

    /// Ends the server and returns what it wrote to its standard error.
    pub fn stop(mut self) -> String {
        self.end();
        self.stderr()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn last_words(&self) -> String {
        let text = self.stderr();
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        // Taken before the end: orphans would no longer be found below their parent.
        let below = self.pids().into_iter().skip(1);
        let below: Vec<_> = below.filter_map(|pid| Some((pid, usage::started_ticks(pid)?))).collect();
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(self.pid(), Signal::TERM);
            self.wait(STOP_SECONDS_MAX);
        }
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            self.wait(KILL_SECONDS_MAX);
        }
        for (pid, started_ticks) in below {
            usage::kill(pid, started_ticks);
        }
    }

    fn wait(&mut self, seconds_max: u64) {
        let end = Instant::now() + Duration::from_secs(seconds_max);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
