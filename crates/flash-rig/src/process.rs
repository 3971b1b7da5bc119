//! A server as a process: started on its processor, ready when it accepts, ended by its own id whatever
//! happens.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::cpu::{self, Cpus};
use super::interrupt;

const READY_SECONDS_MAX: u64 = 10;
const STOP_SECONDS_MAX: u64 = 12;

/// A running server. Dropping it ends it and everything that it started.
pub(crate) struct Process {
    child: Child,
    stderr: PathBuf,
    ended: bool,
}

impl Process {
    /// Starts `command` on the server's processor; its standard error goes to a file in `work`.
    pub(crate) fn start(mut command: Command, cpus: Cpus, work: &Path, name: &str) -> Result<Process> {
        let stderr = work.join(format!("{name}.stderr"));
        command.stdout(Stdio::null()).stderr(File::create(&stderr)?);
        let child = cpus.on_server(|| command.spawn())?;
        let child = child.with_context(|| format!("starting {:?}", command.get_program()))?;
        Ok(Process { child, stderr, ended: false })
    }

    /// Waits until the port accepts connections.
    pub(crate) fn wait_ready(&mut self, port: u16) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            interrupt::check()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status}): {}", self.last_words());
            }
            if Instant::now() > end {
                bail!("it does not listen on port {port} after {READY_SECONDS_MAX} s: {}", self.last_words());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The process and all its descendants, now.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        cpu::tree(self.pid())
    }

    /// Ends the server and returns what it wrote to its standard error.
    pub(crate) fn stop(mut self) -> String {
        self.end();
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        // Taken before the end: orphans would no longer be found below their parent.
        let pids = self.pids();
        let end = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX);
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(self.pid(), Signal::TERM);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                thread::sleep(Duration::from_millis(10));
            }
        }
        for pid in pids.into_iter().skip(1) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
