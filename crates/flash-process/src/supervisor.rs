//! The supervisor: starts a process for each role, watches it, replaces it after a pause, and ends it with the server.
//!
//! The [supervisor process](crate::supervisor_process) and mp's parent use it. So does every server, for a process that it
//! needs and cannot start again. This module does not know what the processes do. The caller learns in its own way that a child
//! has ended (SIGCHLD).

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_os::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait, waitpid,
};

use crate::child;
use crate::restart;
use crate::role::{OnEnd, Role};

#[derive(Debug, Default)]
pub struct Supervisor<'a> {
    needed: Vec<Child>,
    running: Vec<Running<'a>>,
    /// Roles whose process has ended, and when the next one is started.
    pending: Vec<(Instant, Role<'a>)>,
    is_subreaper: bool,
    /// What ends stays away: there is nobody left to need it.
    replaces_no_more: bool,
}

/// A process that was started by others, and that the server cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub pid: Pid,
    /// In what is logged.
    pub name: &'static str,
}

/// A process that is needed and has ended.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    name: &'static str,
    /// `None` if others have waited for it.
    status: Option<WaitStatus>,
}

#[derive(Debug)]
struct Running<'a> {
    pid: Pid,
    since: Instant,
    role: Role<'a>,
}

/// How often [`Supervisor::end`] looks whether processes have ended.
const END_PAUSE: Duration = Duration::from_millis(10);

impl<'a> Supervisor<'a> {
    /// Watches processes that are needed. It starts others only if this process has one thread.
    #[must_use]
    pub fn new(needed: &[Child]) -> Self {
        Self { needed: needed.to_vec(), ..Self::default() }
    }

    /// Reaps orphans too: what this process's descendants leave behind becomes its child.
    #[must_use]
    pub fn subreaper() -> Self {
        process::adopt_orphans();
        Self { is_subreaper: true, ..Self::default() }
    }

    /// Starts a process.
    ///
    /// # Errors
    /// When this process has more than one thread, or the kernel refuses another process.
    pub fn start(&mut self, role: Role<'a>) -> io::Result<()> {
        match fork::fork()? {
            Forked::Child => role.run(),
            Forked::Parent { child } => {
                let pid = Pid::from_raw(child).ok_or(io::ErrorKind::Other)?;
                self.running.push(Running { pid, since: Instant::now(), role });
                Ok(())
            }
        }
    }

    /// Looks which processes have ended, and replaces them now or, if one lived shortly, [later](Self::start_due).
    /// Returns the first that is needed and has ended.
    pub fn reap(&mut self) -> Option<Lost> {
        for (pid, status) in self.ended() {
            if let Some(at) = self.running.iter().position(|running| running.pid == pid) {
                let Running { since, role, .. } = self.running.swap_remove(at);
                self.ended_with(role, since.elapsed(), status);
            }
        }
        self.start_due();
        self.needed.iter().find_map(|child| match waitpid(Some(child.pid), WaitOptions::NOHANG) {
            Ok(None) => None,
            Ok(Some((_, status))) => Some(Lost { name: child.name, status: Some(status) }),
            Err(_) => Some(Lost { name: child.name, status: None }),
        })
    }

    /// A subreaper waits for all children. Others wait for none that they have not started.
    fn ended(&self) -> Vec<(Pid, WaitStatus)> {
        if self.is_subreaper {
            return std::iter::from_fn(|| wait(WaitOptions::NOHANG).ok().flatten()).collect();
        }
        let ended = |running: &Running<'_>| waitpid(Some(running.pid), WaitOptions::NOHANG).ok().flatten();
        self.running.iter().filter_map(ended).collect()
    }

    fn ended_with(&mut self, role: Role<'a>, lifetime: Duration, status: WaitStatus) {
        let pause_max = match role.on_end {
            OnEnd::Forget => return,
            _ if self.replaces_no_more => return,
            OnEnd::RestartUnlessDone { .. } if status.exit_status() == Some(0) => return,
            OnEnd::Restart { pause_max } | OnEnd::RestartUnlessDone { pause_max } => pause_max,
        };
        child::log(format_args!("{} ended ({}): replaced", role.name, Ended(status)));
        self.pending.push((Instant::now() + restart::pause(lifetime, pause_max), role));
    }

    /// Starts the processes whose pause is over.
    fn start_due(&mut self) {
        let now = Instant::now();
        for (_, role) in self.pending.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            let name = role.name.clone();
            if let Err(error) = self.start(role.clone()) {
                child::log(format_args!("{name} cannot be started: {error}"));
                self.pending.push((now + RETRY, role));
            }
        }
    }

    /// Waits until one of these can be read, or a process is to be started.
    ///
    /// # Errors
    /// When the kernel has no room for the few things that this needs.
    pub fn wait(&self, events: &[BorrowedFd<'_>]) -> io::Result<()> {
        let readable = events.iter().map(|event| PollFd::from_borrowed_fd(*event, PollFlags::IN));
        self.wait_until(&mut readable.collect::<Vec<_>>(), None)
    }

    /// As [`Self::wait`], with other events too, and until a time.
    ///
    /// # Errors
    /// As those of [`Self::wait`].
    pub fn wait_until(&self, polled: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
        let due = self.pending.iter().map(|(at, _)| *at).chain(until).min();
        let timeout = due.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// From now on no process is replaced. One that fails at its start would be without end, and its supervisor with it.
    pub fn replace_no_more(&mut self) {
        self.replaces_no_more = true;
        self.pending.clear();
    }

    /// Whether no process runs that would be replaced, and none is to be started.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.pending.is_empty() && self.running.iter().all(|running| running.role.on_end == OnEnd::Forget)
    }

    /// Sends a signal to each process: which one, its place among them decides.
    pub fn signal(&self, signal: impl Fn(usize) -> Signal) {
        self.running.iter().enumerate().for_each(|(at, running)| running.signal(signal(at)));
    }

    /// Sends a signal to the process that was started first.
    pub fn signal_first(&self, signal: Signal) {
        self.running.iter().take(1).for_each(|running| running.signal(signal));
    }

    /// How many processes run that were started on request.
    pub(crate) fn requested(&self) -> usize {
        self.all_requested().count()
    }

    fn all_requested(&self) -> impl Iterator<Item = &Running<'a>> {
        self.running.iter().filter(|running| running.role.on_end == OnEnd::Forget)
    }

    /// Ends at once the processes that were started on request.
    pub fn kill_requested(&self) {
        for running in self.all_requested() {
            running.signal(Signal::KILL);
            // One that is a supervisor process itself leads the group of those that it has started.
            let _ = kill_process_group(running.pid, Signal::KILL);
        }
    }

    /// Ends the processes of all roles: SIGTERM, and SIGKILL to those that have not ended by then. Calls `meanwhile` every few
    /// milliseconds.
    pub fn end(mut self, patience: Duration, mut meanwhile: impl FnMut()) {
        self.signal(|_| Signal::TERM);
        let give_up = Instant::now() + patience;
        while !self.running.is_empty() && Instant::now() < give_up {
            meanwhile();
            let ended = self.ended();
            self.running.retain(|running| !ended.iter().any(|(pid, _)| *pid == running.pid));
            thread::sleep(if self.running.is_empty() { Duration::ZERO } else { END_PAUSE });
        }
        self.signal(|_| Signal::KILL);
    }
}

impl Running<'_> {
    fn signal(&self, signal: Signal) {
        // It may have ended by itself. Its number is its own until it was waited for.
        let _ = kill_process(self.pid, signal);
    }
}

/// After a process that the kernel refused.
const RETRY: Duration = Duration::from_secs(1);

impl Lost {
    /// For the log, when it is noticed.
    #[must_use]
    pub fn farewell(&self) -> String {
        format!("{self} and cannot be started again from here: stopping")
    }
}

impl From<Lost> for io::Error {
    fn from(lost: Lost) -> Self {
        Self::other(format!("stopped because {lost}"))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended", self.name)?;
        self.status.map_or(Ok(()), |status| write!(f, " ({})", Ended(status)))
    }
}

/// How a process ended.
struct Ended(WaitStatus);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.exit_status(), self.0.terminating_signal()) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => write!(f, "unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn one_that_ends_is_noticed_whoever_waits_for_it() {
        let start = || {
            let child = Command::new("sleep").arg("60").spawn().unwrap();
            let pid = Pid::from_child(&child);
            (child, Child { pid, name: "the sleeper" })
        };
        let ((mut first, one), (mut second, other)) = (start(), start());
        let mut supervisor = Supervisor::new(&[one, other]);
        assert!(supervisor.reap().is_none() && Supervisor::new(&[]).reap().is_none());
        second.kill().unwrap();
        let give_up = Instant::now() + Duration::from_secs(30);
        let gone = loop {
            if let Some(gone) = supervisor.reap() {
                break gone;
            }
            assert!(Instant::now() < give_up);
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(gone.to_string(), "the sleeper ended (signal 9)");
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(supervisor.reap().map(|gone| gone.to_string()), Some("the sleeper ended".into()));
    }
}
