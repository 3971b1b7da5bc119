//! The programs that run, as children of this process: started, ended with their process groups, and reaped.
//!
//! A program has ended when its first process has ended. The fork helper ends the rest of its process group a little later. A
//! process that must outlive a request has that time to leave the group (`setsid`). The fork helper sends SIGTERM first, and
//! SIGKILL after the grace period.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flash_os::pidfd;
use flash_os::poller::{Interest, Poller};
use flash_os::spawn::Spawned;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait, waitpgid, waitpid};

use crate::protocol::ExitStatus;

/// A program's identity for server processes: the server's token, and the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramId {
    pub(super) server: u64,
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) id: ProgramId,
    pid: Pid,
    /// One that this process has not started has one.
    pidfd: Option<Rc<OwnedFd>>,
    /// Whether it counts against the limit of scripts that run.
    is_counted: bool,
    state: ChildState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildState {
    Running,
    /// Started by a fork helper that is gone: this process cannot wait for it.
    Adopted,
    /// SIGTERM was sent.
    Terminating,
}

/// What is left of a program's process group.
#[derive(Debug)]
struct ProcessGroup {
    leader: Pid,
    next: Signal,
    next_at: Instant,
}

#[derive(Debug)]
pub(super) struct Children {
    poller: Rc<Poller>,
    /// Whether children of programs that have ended become this process's.
    is_subreaper: bool,
    grace: Duration,
    /// By their tokens in the poller.
    programs: HashMap<u64, Child>,
    counted: usize,
    /// Programs that are being ended, by when SIGKILL follows.
    terminating: VecDeque<(Instant, u64)>,
    groups: Vec<ProcessGroup>,
    sweep_at: Option<Instant>,
    sweep_every: Duration,
    /// How the last children ended that no program here was known by: one may have been started by a thread that has not
    /// told yet.
    strangers: VecDeque<(Pid, WaitStatus)>,
}

/// How often processes are looked for of which no event told.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The same, in a thread of the server that has no pidfds: SIGCHLD is the server's.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const STRANGERS_MAX: usize = 64;

impl Children {
    pub(super) fn new(poller: Rc<Poller>, is_subreaper: bool, grace: Duration) -> Self {
        Self {
            poller,
            is_subreaper,
            grace,
            programs: HashMap::new(),
            counted: 0,
            terminating: VecDeque::new(),
            groups: Vec::new(),
            sweep_at: None,
            sweep_every: if is_subreaper || pidfd::are_there() { SWEEP_EVERY } else { LOOK_EVERY },
            strangers: VecDeque::new(),
        }
    }

    /// How many programs run of those that are counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn is_idle(&self) -> bool {
        self.programs.is_empty() && self.groups.is_empty()
    }

    /// Looks after a program that was started. Its end will be an event of that token.
    pub(super) fn add(
        &mut self,
        token: u64,
        id: ProgramId,
        spawned: Spawned,
        is_counted: bool,
        now: Instant,
    ) -> Option<Rc<OwnedFd>> {
        let pid = Pid::from_raw(spawned.pid).expect("no child has the number 0");
        let pidfd = spawned.pidfd.map(Rc::new);
        let state = ChildState::Running;
        self.watch(token, Child { id, pid, pidfd: pidfd.clone(), is_counted, state });
        match pidfd {
            Some(_) => _ = self.sweep_at.get_or_insert(now + SWEEP_EVERY),
            // It may have ended, and a sweep waited for it.
            None => self.sweep_at(now),
        }
        pidfd
    }

    /// Looks after a program that another fork helper has started. Returns whether it still runs.
    pub(super) fn adopt(&mut self, token: u64, id: ProgramId, pidfd: OwnedFd, is_counted: bool) -> bool {
        let Some(pid) = pid_of(&pidfd) else { return false };
        let (pidfd, state) = (Some(Rc::new(pidfd)), ChildState::Adopted);
        self.watch(token, Child { id, pid, pidfd, is_counted, state });
        true
    }

    fn watch(&mut self, token: u64, child: Child) {
        if let Some(pidfd) = &child.pidfd {
            // Once: the server has it too, so that closing it here does not end the watch. Should the kernel have no memory for it,
            // the next sweep finds its end.
            let _ = self.poller.add(pidfd.as_fd(), token, Interest::INPUT.once());
        }
        self.counted += usize::from(child.is_counted);
        self.programs.insert(token, child);
    }

    /// Ends these programs: SIGTERM, then SIGKILL after the grace.
    pub(super) fn terminate(&mut self, which: impl Fn(ProgramId) -> bool, now: Instant) {
        for (&token, program) in &mut self.programs {
            if program.state != ChildState::Terminating && which(program.id) {
                signal_group(program, Signal::TERM);
                // A process that is stopped would not receive it.
                signal_group(program, Signal::CONT);
                if program.state == ChildState::Running {
                    program.state = ChildState::Terminating;
                }
                self.terminating.push_back((now + self.grace, token));
            }
        }
    }

    /// The program of that token has ended, if there is one.
    pub(super) fn ended(&mut self, token: u64, now: Instant) -> Option<(ProgramId, ExitStatus)> {
        let program = self.programs.get(&token)?;
        if program.state == ChildState::Adopted {
            // Its number may be a child's of this process by now.
            return program.has_ended().then(|| self.remove(token, ExitStatus::Unknown, now));
        }
        let how = match rustix::io::retry_on_intr(|| waitpid(Some(program.pid), WaitOptions::NOHANG)) {
            Ok(Some((_, status))) => exit_status(status),
            // Not yet after all.
            Ok(None) => return None,
            // A sweep has waited for it.
            Err(_) => {
                let stranger = self.strangers.iter().rev().find(|(pid, _)| *pid == program.pid);
                stranger.map_or(ExitStatus::Unknown, |&(_, status)| exit_status(status))
            }
        };
        Some(self.remove(token, how, now))
    }

    fn remove(&mut self, token: u64, how: ExitStatus, now: Instant) -> (ProgramId, ExitStatus) {
        let program = self.programs.remove(&token).expect("callers have just found it");
        if let Some(pidfd) = &program.pidfd {
            self.poller.disarm(pidfd);
        }
        self.counted -= usize::from(program.is_counted);
        if program.state != ChildState::Adopted && self.has_members(program.pid) {
            let next = if program.state == ChildState::Terminating { Signal::KILL } else { Signal::TERM };
            self.groups.push(ProcessGroup { leader: program.pid, next, next_at: now + self.grace });
        }
        (program.id, how)
    }

    /// Whether processes are left of a group whose leader was waited for.
    fn has_members(&self, group: Pid) -> bool {
        loop {
            match waitpgid(group, WaitOptions::NOHANG) {
                Ok(None) => return true,
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// When there will be something to do without an event.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let groups = self.groups.iter().map(|group| group.next_at);
        groups.chain(self.terminating.front().map(|&(at, _)| at)).chain(self.sweep_at).min()
    }

    /// Looks for processes that have ended in the next [`Children::advance`] from then on.
    pub(super) fn sweep_at(&mut self, at: Instant) {
        self.sweep_at = Some(at);
    }

    /// Does what is due by now. Those that have ended without an event are told to `ended`.
    pub(super) fn advance(&mut self, now: Instant, mut ended: impl FnMut(ProgramId, ExitStatus)) {
        while let Some(&(_, token)) = self.terminating.front().filter(|(at, _)| *at <= now) {
            self.terminating.pop_front();
            if let Some(program) = self.programs.get(&token) {
                signal_group(program, Signal::KILL);
            }
        }
        for group in &mut self.groups {
            if group.next_at <= now {
                // A group's number is not given to others while it has members, and these are children of ours.
                let _ = kill_process_group(group.leader, group.next);
                let _ = kill_process_group(group.leader, Signal::CONT);
                (group.next, group.next_at) = (Signal::KILL, now + self.grace);
            }
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            let children_left = self.sweep(now, &mut ended);
            self.sweep_at = children_left.then_some(now + self.sweep_every);
        }
    }

    /// Reaps all children that have ended: orphans of programs become children of this process.
    fn sweep(&mut self, now: Instant, ended: &mut impl FnMut(ProgramId, ExitStatus)) -> bool {
        let mut children_left = !self.programs.is_empty();
        while self.is_subreaper {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let is_it = |program: &Child| program.pid == pid && program.state != ChildState::Adopted;
                    let token = self.programs.iter().find(|(_, program)| is_it(program));
                    if let Some((&token, _)) = token {
                        let (id, how) = self.remove(token, exit_status(status), now);
                        ended(id, how);
                    } else {
                        self.strangers.push_back((pid, status));
                        if self.strangers.len() > STRANGERS_MAX {
                            self.strangers.pop_front();
                        }
                    }
                }
                Ok(None) => {
                    children_left = true;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let unwatched = self.programs.iter().filter(|(_, program)| program.pidfd.is_none());
        for token in unwatched.map(|(&token, _)| token).collect::<Vec<_>>() {
            if let Some((id, how)) = self.ended(token, now) {
                ended(id, how);
            }
        }
        let mut groups = std::mem::take(&mut self.groups);
        groups.retain(|group| self.has_members(group.leader));
        self.groups = groups;
        children_left
    }
}

fn signal_group(program: &Child, signal: Signal) {
    // The number of a child is its own until it was waited for. One that another fork helper began may have been waited
    // for by now, and the number be another process's.
    if program.state == ChildState::Adopted {
        let Some(pidfd) = &program.pidfd else { return };
        match pidfd::send_to_group(pidfd.as_fd(), signal.as_raw()) {
            // Linux before 6.9.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                if program.has_ended() || pid_of(pidfd) != Some(program.pid) {
                    return;
                }
            }
            _ => return,
        }
    }
    // A process that may not be signalled, having become another user, is left alone.
    let _ = kill_process_group(program.pid, signal);
}

/// The number of the process, until it was waited for.
fn pid_of(pidfd: &OwnedFd) -> Option<Pid> {
    pidfd::number_of(pidfd.as_fd()).and_then(Pid::from_raw)
}

impl Child {
    /// Whether its pidfd says so.
    fn has_ended(&self) -> bool {
        self.pidfd.as_ref().is_some_and(|pidfd| {
            let mut poll = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut poll, Some(&rustix::event::Timespec::default())) != Ok(0)
        })
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn an_adopted_program_is_known_by_its_pidfd_alone() {
        let start = || Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pidfd =
            |child: &std::process::Child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
        let poller = Rc::new(Poller::new().unwrap());
        let mut children = Children::new(poller, false, Duration::from_secs(1));
        let now = Instant::now();
        let (mut gone, mut other) = (start(), start());
        let id = |number| ProgramId { server: 1, number };
        let of_gone = pidfd(&gone);
        assert!(children.adopt(1, id(1), of_gone.try_clone().unwrap(), false));
        gone.kill().unwrap();
        gone.wait().unwrap();
        assert!(!children.adopt(2, id(2), of_gone, false), "its number may be another process's");
        // As if the kernel had given its number to another one.
        children.programs.get_mut(&1).unwrap().pid = Pid::from_child(&other);
        children.terminate(|_| true, now);
        children.advance(now + Duration::from_secs(2), |_, _| ());
        assert!(other.try_wait().unwrap().is_none(), "the other one runs on");
        assert_eq!(children.ended(1, now), Some((id(1), ExitStatus::Unknown)));
        assert!(children.adopt(3, id(3), pidfd(&other), false));
        assert!(children.ended(3, now).is_none());
        children.terminate(|_| true, now);
        other.wait().unwrap();
        assert!(children.ended(3, now).is_some());
    }
}
