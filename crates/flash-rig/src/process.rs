//! A server as a process: started on its processors, ready when it accepts, ended by its own id with everything
//! that it started, whatever happens.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cpus::Cpus;
use crate::interrupt;
use crate::journal::{Change, Journal};
use crate::undo::Undo;
use crate::usage::{self, Held, Memory, Usage};

const READY_SECONDS_MAX: u64 = 10;
/// Flash drains for ten.
const STOP_SECONDS_MAX: u64 = 12;
/// How long a server's processes may run on without it.
const NOTICE_SECONDS_MAX: u64 = 2;
/// A process that waits for a disk ends when the disk answers; the rig does not wait for that.
const KILL_SECONDS_MAX: u64 = 5;

/// A running server. Dropping it ends it and everything that it started.
pub struct Process {
    child: Child,
    stderr: PathBuf,
    ended: bool,
    _change: Change,
    /// The daemon that works for the server, or the servers behind a balancer. What they use counts as its own.
    pub(crate) beside: Vec<Process>,
}

/// How a server ended that was asked to (SIGTERM).
#[derive(Debug)]
pub struct Ended {
    /// None if it had to be killed.
    pub status: Option<ExitStatus>,
    pub took: Duration,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// The names of its own processes that ran on without it, and had to be killed.
    pub left_behind: Vec<String>,
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
            Ok(change) => Ok(Process { child, stderr, ended: false, _change: change, beside: Vec::new() }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error)
            }
        }
    }

    /// Waits until `accepts` says that the `place` where it listens accepts connections.
    pub(crate) fn wait_ready(&mut self, place: &str, accepts: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        loop {
            interrupt::check()?;
            let accepts = accepts();
            // Looked at afterwards: another program may have come to listen there.
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status}): {}", self.last_words());
            }
            if accepts {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("it does not listen on {place} after {READY_SECONDS_MAX} s: {}", self.last_words());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process and all its descendants, now, and those beside it.
    pub fn pids(&self) -> Vec<Pid> {
        let mut pids = usage::tree(self.pid());
        pids.extend(self.beside.iter().flat_map(Process::pids));
        pids
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

    /// What the process and all its descendants hold now.
    pub fn held(&self) -> Held {
        usage::held(&self.pids())
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

    /// Asks the server to end, waits for that as long as `patience`, and says how it went.
    pub fn terminate(mut self, patience: Duration) -> Ended {
        let begun = Instant::now();
        let below = self.below();
        let _ = kill_process(self.pid(), Signal::TERM);
        self.wait(patience);
        let status = self.child.try_wait().ok().flatten();
        let took = begun.elapsed();
        // They notice its end by the end of a pipe.
        let notice = Instant::now() + Duration::from_secs(NOTICE_SECONDS_MAX);
        let left = || below.iter().filter(|&&(pid, started_ticks)| usage::runs(pid, started_ticks));
        while status.is_some() && left().next().is_some() && Instant::now() < notice {
            thread::sleep(Duration::from_millis(10));
        }
        let left_behind = left().map(|&(pid, _)| usage::name(pid)).collect();
        self.end();
        for (pid, started_ticks) in below {
            usage::kill(pid, started_ticks);
        }
        Ended { status, took, stderr: self.stderr(), left_behind }
    }

    /// Ends the server and returns what it wrote to its standard error.
    pub fn stop(mut self) -> String {
        self.end();
        self.stderr()
    }

    pub fn pid(&self) -> Pid {
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
        let below = self.below();
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(self.pid(), Signal::TERM);
            self.wait(Duration::from_secs(STOP_SECONDS_MAX));
        }
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            self.wait(Duration::from_secs(KILL_SECONDS_MAX));
        }
        for (pid, started_ticks) in below {
            usage::kill(pid, started_ticks);
        }
    }

    /// All its descendants, each named for good. To be taken before the end: orphans would no longer be found below
    /// their parent.
    fn below(&self) -> Vec<(Pid, u64)> {
        let below = self.pids().into_iter().skip(1);
        below.filter_map(|pid| Some((pid, usage::started_ticks(pid)?))).collect()
    }

    fn wait(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
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
