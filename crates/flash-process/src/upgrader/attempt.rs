//! The life of a process that executes a new server, and watches it until it is ready.
//!
//! Before the new server knows its predecessor, its standard error is read here, and passed on as well. If it does not start, the
//! reason is there.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_os::socket::{Waits, pipe};
use flash_os::{exec, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use super::wanted::{NAME, Wanted};
use crate::child;
use crate::ipc::{self, Received};
use crate::predecessor::{FAILED, GO, PREDECESSOR, READY, STDERR};

/// How much of what a new server said is kept.
const SAID_BYTES_MAX: usize = 4 << 10;
/// How long a new server may take to end that is not wanted any more.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What may be executed, and how.
pub(super) struct NextServer<'a> {
    /// The program of the start.
    pub(super) own: PathBuf,
    /// The programs that root has named for this upgrade.
    pub(super) named: Vec<PathBuf>,
    pub(super) environment: &'a [(OsString, OsString)],
}

/// A new server that is not ready yet.
pub(super) struct Attempt {
    /// A child of this process. The number is its own until it was waited for.
    pid: Pid,
    /// Readable when it has ended.
    child_ends: OwnedFd,
    /// How it ended, once it was waited for.
    ended: Option<WaitStatus>,
    /// The socket to it.
    new: OwnedFd,
    /// Its end of the socket is open.
    is_heard: bool,
    /// Its standard error, until it has another one.
    stderr: Option<File>,
    /// The last of what it said there.
    said: Vec<u8>,
    ready_within: Duration,
}

enum Outcome {
    Ready,
    Failed(String),
    /// The old server wants no other any more, or has ended.
    Unwanted,
}

/// Does what the server at this socket wants.
pub(super) fn run(server: &OwnedFd, next: &NextServer<'_>) -> io::Result<()> {
    let why = match Attempt::start(server, next) {
        Err(error) => error.to_string(),
        Ok(mut attempt) => match attempt.wait(server)? {
            Outcome::Failed(why) => why,
            Outcome::Ready => return attempt.hand_over(server),
            Outcome::Unwanted => return attempt.end(),
        },
    };
    // The server may have ended.
    let _ = ipc::send(server, &[&[FAILED], why.as_bytes()].concat(), &[]);
    Ok(())
}

impl NextServer<'_> {
    /// The program to execute. The server may want any.
    fn program<'p>(&'p self, wanted: Option<&'p Path>) -> io::Result<&'p Path> {
        let program = match wanted {
            None => &self.own,
            Some(wanted) if self.named.iter().any(|named| named == wanted) => wanted,
            Some(wanted) => {
                let (wanted, own) = (wanted.display(), self.own.display());
                return Err(io::Error::other(format!(
                    "only root may have {wanted} executed in place of {own}, by flash upgrade --binary"
                )));
            }
        };
        flash_trust::program(program).map(|()| program)
    }
}

impl Attempt {
    fn start(server: &OwnedFd, next: &NextServer<'_>) -> io::Result<Self> {
        let wanted = Wanted::receive(server)?;
        let program = next.program(wanted.binary.as_deref())?;
        let ((new, theirs), (stderr, their_stderr)) = (ipc::pair()?, pipe(Waits::Yes)?);
        let child_ends = signals::child_ends()?;
        match fork::fork()? {
            Forked::Child => child::run_and_exit(NAME, || {
                let error = execute(program, next, &wanted, theirs.as_fd(), their_stderr.as_fd());
                Err(io::Error::other(format!("cannot execute {}: {error}", program.display())))
            }),
            Forked::Parent { child } => {
                let pid = Pid::from_raw(child).ok_or(io::ErrorKind::Other)?;
                rustix::io::ioctl_fionbio(&stderr, true)?;
                let stderr = Some(stderr.into());
                let ready_within = wanted.ready_within;
                let (ended, is_heard, said) = (None, true, Vec::new());
                Ok(Self { pid, child_ends, ended, new, is_heard, stderr, said, ready_within })
            }
        }
    }

    /// Waits until the new server is ready or has failed.
    fn wait(&mut self, server: &OwnedFd) -> io::Result<Outcome> {
        let give_up = Instant::now() + self.ready_within;
        // Why it fails, if it knows its predecessor by then.
        let mut why = None;
        let mut buffer = ipc::buffer();
        loop {
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.end()?;
                let (seconds, said) = (self.ready_within.as_secs_f64(), self.said());
                return Ok(Outcome::Failed(format!("{said}the new server was not ready within {seconds} s")));
            }
            let is_unwanted = self.poll(server, left)?;
            let ended = self.look()?;
            self.read_stderr();
            // Before its end is looked at, so that nothing is missed.
            match ipc::try_receive(&self.new, &mut buffer) {
                Ok(Received::Message(message)) if *message.bytes == *READY => return Ok(Outcome::Ready),
                Ok(Received::Message(message)) => {
                    why = message.bytes.get(1..).map(|why| String::from_utf8_lossy(why).into_owned());
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Gone) | Err(_) => self.is_heard = false,
            }
            if let Some(how) = ended {
                let said = self.said();
                let how = match (how.exit_status(), how.terminating_signal()) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, signal) => format!("signal {}", signal.unwrap_or_default()),
                };
                let why = why.map_or_else(String::new, |why| format!("{why}\n"));
                return Ok(Outcome::Failed(format!(
                    "{said}{why}the new server ended before it was ready ({how})"
                )));
            }
            if is_unwanted {
                return Ok(Outcome::Unwanted);
            }
        }
    }

    /// Waits for any news. Tells whether the old server has said something, or has ended.
    fn poll(&self, server: &OwnedFd, patience: Duration) -> io::Result<bool> {
        let mut polled =
            vec![PollFd::new(server, PollFlags::IN), PollFd::new(&self.child_ends, PollFlags::IN)];
        polled.extend(self.is_heard.then(|| PollFd::new(&self.new, PollFlags::IN)));
        polled.extend(self.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
        wait(&mut polled, patience)?;
        Ok(!polled[0].revents().is_empty())
    }

    /// Looks whether the new server has ended, and how.
    fn look(&mut self) -> io::Result<Option<WaitStatus>> {
        // Before the look, so that its end is not missed.
        let _ = rustix::io::read(&self.child_ends, &mut [0; 512][..]);
        if self.ended.is_none() {
            self.ended = waitpid(Some(self.pid), WaitOptions::NOHANG)?.map(|(_, status)| status);
        }
        Ok(self.ended)
    }

    /// Passes on what the new server has said on its standard error, and keeps the last of it.
    fn read_stderr(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(stderr) = &mut self.stderr {
            match stderr.read(&mut buffer) {
                Ok(0) => self.stderr = None,
                Ok(count) => {
                    // If nobody reads it there, it is not lost.
                    let _ = io::stderr().write_all(&buffer[..count]);
                    self.said.extend_from_slice(&buffer[..count]);
                    let excess = self.said.len().saturating_sub(SAID_BYTES_MAX);
                    self.said.drain(..excess);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// The last lines of what the new server said.
    fn said(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let said = said.trim();
        if said.is_empty() { String::new() } else { format!("{said}\n") }
    }

    /// Ends the new server, if it has not ended.
    fn end(&mut self) -> io::Result<()> {
        for signal in [Signal::TERM, Signal::KILL] {
            let give_up = Instant::now() + END_PATIENCE;
            if self.look()?.is_none() {
                kill_process(self.pid, signal)?;
            }
            while self.look()?.is_none() && Instant::now() < give_up {
                let left = give_up.saturating_duration_since(Instant::now());
                wait(&mut [PollFd::new(&self.child_ends, PollFlags::IN)], left)?;
            }
        }
        Ok(())
    }

    /// Tells the old server that the new one is ready, and the new one that it goes on alone.
    fn hand_over(&mut self, server: &OwnedFd) -> io::Result<()> {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs().to_ne_bytes();
        let told = ipc::send(server, &[READY, &pid].concat(), &[]);
        let goes =
            told.is_ok() && ipc::receive(server, &mut ipc::buffer())?.is_some_and(|said| *said.bytes == *GO);
        if !goes {
            return self.end();
        }
        ipc::send(&self.new, GO, &[])?;
        Ok(ipc::send(server, GO, &[])?)
    }
}

fn wait(polled: &mut [PollFd<'_>], patience: Duration) -> io::Result<()> {
    match poll(polled, Timespec::try_from(patience).ok().as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Becomes the new server. Nobody else can have put another file at the program's path since it was [looked
/// at](flash_trust::program).
fn execute(
    program: &Path,
    next: &NextServer<'_>,
    wanted: &Wanted,
    predecessor: BorrowedFd<'_>,
    stderr: BorrowedFd<'_>,
) -> io::Error {
    let own_stderr = io::stderr();
    let mut words = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    let names = wanted.names.iter().map(String::as_str).chain([PREDECESSOR, STDERR]);
    let names = names.collect::<Vec<_>>().join(":");
    let pid = process::id().to_string();
    command.args(words).current_dir("/");
    command.env_clear().envs(next.environment.iter().map(|(name, value)| (name, value)));
    command.env("LISTEN_PID", &pid).env("LISTEN_FDNAMES", names);
    command.env("LISTEN_FDS", (wanted.sockets.len() + 2).to_string());
    if next.environment.iter().any(|(name, _)| name == "WATCHDOG_PID") {
        command.env("WATCHDOG_PID", pid);
    }
    let sockets = wanted.sockets.iter().map(AsFd::as_fd);
    let descriptors: Vec<BorrowedFd<'_>> = sockets.chain([predecessor, own_stderr.as_fd()]).collect();
    exec::exec(&mut command, stderr, &descriptors)
}
