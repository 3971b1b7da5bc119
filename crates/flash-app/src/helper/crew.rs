//! The programs that run: begun, ended with all that they started, and waited for.
//!
//! A program is over when the process ends that was begun. Whatever else is left of its process group is ended a little
//! later: what is to outlive a request has to make itself independent (`setsid`), and has that long to do so. SIGTERM
//! comes first, and SIGKILL after the grace.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flash_os::spawn::Spawned;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait, waitpgid, waitpid};

use crate::wire::Ended;

/// Which program that is to the servers: the server's token, and the number that it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) server: u64,
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) name: Name,
    pid: Pid,
    pidfd: Rc<OwnedFd>,
    /// One of those that there may be only so many of.
    is_counted: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// Begun by a fork helper that is no more: nobody here can wait for it.
    Adopted,
    /// SIGTERM was sent.
    Ends,
}

/// What is left of a program's group.
#[derive(Debug)]
struct Rest {
    group: Pid,
    next: Signal,
    next_at: Instant,
}

#[derive(Debug)]
pub(super) struct Crew {
    epoll: Rc<OwnedFd>,
    /// Whether children of programs that have ended become this process's.
    inherits: bool,
    grace: Duration,
    /// By their tokens in the epoll set.
    programs: HashMap<u64, Running>,
    counted: usize,
    /// Those that are being ended, in the order of their last moments.
    ending: VecDeque<(Instant, u64)>,
    rests: Vec<Rest>,
    sweep_at: Option<Instant>,
    /// How the last children ended that no program here was known by: one may have been started by a thread that has not
    /// told yet.
    strangers: VecDeque<(Pid, WaitStatus)>,
}

/// How often it is looked for processes that nobody has told about.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const STRANGERS_MAX: usize = 64;

impl Crew {
    pub(super) fn new(epoll: Rc<OwnedFd>, inherits: bool, grace: Duration) -> Self {
        Self {
            epoll,
            inherits,
            grace,
            programs: HashMap::new(),
            counted: 0,
            ending: VecDeque::new(),
            rests: Vec::new(),
            sweep_at: None,
            strangers: VecDeque::new(),
        }
    }

    /// How many run of those that are counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    pub(super) fn is_idle(&self) -> bool {
        self.programs.is_empty() && self.rests.is_empty()
    }

    /// Looks after a program that was started. Its end will be an event of that token.
    pub(super) fn add(
        &mut self,
        token: u64,
        name: Name,
        spawned: Spawned,
        is_counted: bool,
        now: Instant,
    ) -> Rc<OwnedFd> {
        let pid = Pid::from_raw(spawned.pid).expect("no child has the number 0");
        let pidfd = Rc::new(spawned.pidfd);
        let state = State::Runs;
        self.watch(token, Running { name, pid, pidfd: Rc::clone(&pidfd), is_counted, state });
        self.sweep_at.get_or_insert(now + SWEEP_EVERY);
        pidfd
    }

    pub(super) fn adopt(&mut self, token: u64, name: Name, pid: Pid, pidfd: OwnedFd, is_counted: bool) {
        self.watch(token, Running { name, pid, pidfd: Rc::new(pidfd), is_counted, state: State::Adopted });
    }

    fn watch(&mut self, token: u64, running: Running) {
        let data = epoll::EventData::new_u64(token);
        // Once: the server has it too, so that closing it here does not take it out of the set.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        // Should the kernel have no memory for it, the next sweep finds its end.
        let _ = epoll::add(&*self.epoll, running.pidfd.as_fd(), data, flags);
        self.counted += usize::from(running.is_counted);
        self.programs.insert(token, running);
    }

    /// Ends the programs that these are, with time for last words.
    pub(super) fn end(&mut self, which: impl Fn(Name) -> bool, now: Instant) {
        for (&token, program) in &mut self.programs {
            if program.state != State::Ends && which(program.name) {
                signal_group(program, Signal::TERM);
                // One that is stopped would not hear of it.
                signal_group(program, Signal::CONT);
                if program.state == State::Runs {
                    program.state = State::Ends;
                }
                self.ending.push_back((now + self.grace, token));
            }
        }
    }

    /// The program of that token has ended, if there is one.
    pub(super) fn ended(&mut self, token: u64, now: Instant) -> Option<(Name, Ended)> {
        let program = self.programs.get(&token)?;
        let how = match rustix::io::retry_on_intr(|| waitpid(Some(program.pid), WaitOptions::NOHANG)) {
            Ok(Some((_, status))) => of_status(status),
            // Not yet after all.
            Ok(None) => return None,
            // Another fork helper's child, or one that a sweep has waited for.
            Err(_) => {
                let stranger = self.strangers.iter().rev().find(|(pid, _)| *pid == program.pid);
                stranger.map_or(Ended::Unknown, |&(_, status)| of_status(status))
            }
        };
        Some(self.forget(token, how, now))
    }

    fn forget(&mut self, token: u64, how: Ended, now: Instant) -> (Name, Ended) {
        let program = self.programs.remove(&token).expect("callers have just found it");
        self.counted -= usize::from(program.is_counted);
        if program.state != State::Adopted && self.has_members(program.pid) {
            let next = if program.state == State::Ends { Signal::KILL } else { Signal::TERM };
            self.rests.push(Rest { group: program.pid, next, next_at: now + self.grace });
        }
        (program.name, how)
    }

    /// Whether anybody is left of a group whose first process was waited for.
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
        let rests = self.rests.iter().map(|rest| rest.next_at);
        rests.chain(self.ending.front().map(|&(at, _)| at)).chain(self.sweep_at).min()
    }

    /// Does what is due by now. Those that have ended without an event are told to `ended`.
    pub(super) fn advance(&mut self, now: Instant, mut ended: impl FnMut(Name, Ended)) {
        while let Some(&(_, token)) = self.ending.front().filter(|(at, _)| *at <= now) {
            self.ending.pop_front();
            if let Some(program) = self.programs.get(&token) {
                signal_group(program, Signal::KILL);
            }
        }
        for rest in &mut self.rests {
            if rest.next_at <= now {
                // A group's number is not given to others while it has members, and these are children of ours.
                let _ = kill_process_group(rest.group, rest.next);
                let _ = kill_process_group(rest.group, Signal::CONT);
                (rest.next, rest.next_at) = (Signal::KILL, now + self.grace);
            }
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            let children_left = self.sweep(now, &mut ended);
            self.sweep_at = children_left.then_some(now + SWEEP_EVERY);
        }
    }

    /// Waits for whoever has ended: orphans of programs become children of this process.
    fn sweep(&mut self, now: Instant, ended: &mut impl FnMut(Name, Ended)) -> bool {
        let mut children_left = !self.programs.is_empty();
        while self.inherits {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let token = self.programs.iter().find(|(_, program)| program.pid == pid);
                    if let Some((&token, _)) = token {
                        let (name, how) = self.forget(token, of_status(status), now);
                        ended(name, how);
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
        let mut rests = std::mem::take(&mut self.rests);
        rests.retain(|rest| self.has_members(rest.group));
        self.rests = rests;
        children_left
    }
}

fn signal_group(program: &Running, signal: Signal) {
    // The number of a child is its own until it was waited for. One that another fork helper began may have been waited
    // for by now.
    if program.state == State::Adopted && has_ended(&program.pidfd) {
        return;
    }
    // Whoever may not be ended, having become another user, is let be.
    let _ = kill_process_group(program.pid, signal);
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut poll = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
    let at_once = rustix::event::Timespec::default();
    rustix::event::poll(&mut poll, Some(&at_once)) != Ok(0)
}

fn of_status(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Unknown,
    }
}
