//! Servers whose place was taken, and which finish the requests under way: an operator wants to see them.
//!
//! Each is a pidfd, which goes with the listening sockets from server to server. No messages pass, and a server that was taken over by
//! an attacker can only make another one up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_os::pidfd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How the names of their descriptors begin. Their numbers and the times follow.
const NAME: &str = "flash=earlier=";
/// More servers than drain at a time. Those that were replaced first are not shown.
const SERVERS_MAX: usize = 16;

/// A server whose place was taken.
#[derive(Debug)]
pub struct EarlierServer {
    pub pid: u32,
    /// When its successor was started.
    pub since_unix_ms: u64,
    pidfd: OwnedFd,
}

/// All of them, the latest one last.
#[derive(Clone, Debug, Default)]
pub struct EarlierServers(Arc<[EarlierServer]>);

impl EarlierServer {
    /// The one that this descriptor of a predecessor stands for.
    ///
    /// # Errors
    /// The descriptor, if its name is of something else.
    pub fn passed(name: &str, pidfd: OwnedFd) -> Result<Self, OwnedFd> {
        let numbers = name.strip_prefix(NAME).and_then(|numbers| numbers.split_once('='));
        match numbers.map(|(pid, since)| (pid.parse(), since.parse())) {
            Some((Ok(pid), Ok(since_unix_ms))) => Ok(Self { pid, since_unix_ms, pidfd }),
            _ => Err(pidfd),
        }
    }

    fn lives(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now)) == Ok(0)
    }
}

impl EarlierServers {
    #[must_use]
    pub fn new(all: Vec<EarlierServer>) -> Self {
        Self(all.into())
    }

    /// Those that have not ended.
    pub fn alive(&self) -> impl DoubleEndedIterator<Item = &EarlierServer> {
        self.0.iter().filter(|server| server.lives())
    }

    /// The descriptors for a successor of the server with this pidfd, and their names.
    pub fn with<'a>(
        &'a self,
        this: Option<BorrowedFd<'a>>,
        now_unix_ms: u64,
    ) -> impl Iterator<Item = (BorrowedFd<'a>, String)> {
        let named = |pid: u32, since: u64| format!("{NAME}{pid}={since}");
        let earlier =
            self.alive().map(move |server| (server.pidfd.as_fd(), named(server.pid, server.since_unix_ms)));
        let this = this.map(|this| (this, named(std::process::id(), now_unix_ms)));
        let mut all: Vec<_> = earlier.chain(this).collect();
        all.drain(..all.len().saturating_sub(SERVERS_MAX));
        all.into_iter()
    }
}

/// The descriptor of this process, if there are such descriptors.
pub(crate) fn this() -> Option<OwnedFd> {
    pidfd::of_this_process().ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn a_server_is_passed_on_for_as_long_as_it_lives() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let name = format!("{NAME}{}=7", child.id());
        let earlier = EarlierServers::new(vec![EarlierServer::passed(&name, pidfd).unwrap()]);
        let this = this().unwrap();
        let names = || earlier.with(Some(this.as_fd()), 9).map(|(_, name)| name).collect::<Vec<_>>();
        let own = format!("{NAME}{}=9", std::process::id());
        assert_eq!(names(), [name, own.clone()]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(names(), [own]);
        assert_eq!(earlier.alive().count(), 0);
    }

    #[test]
    fn the_latest_ones_are_passed_on() {
        let this = this().unwrap();
        let passed = |since: usize| {
            EarlierServer::passed(&format!("{NAME}1={since}"), this.try_clone().unwrap()).unwrap()
        };
        let earlier = EarlierServers::new((0..SERVERS_MAX).map(passed).collect());
        let names: Vec<_> = earlier.with(Some(this.as_fd()), 99).map(|(_, name)| name).collect();
        assert_eq!(names.len(), SERVERS_MAX);
        assert_eq!(names[0], format!("{NAME}1=1"));
        assert_eq!(names[SERVERS_MAX - 1], format!("{NAME}{}=99", std::process::id()));
    }

    #[test]
    fn other_names_are_of_other_descriptors() {
        for name in ["http", "flash=earlier=", "flash=earlier=1", "flash=earlier=a=1", "flash=earlier=1=2=3"]
        {
            assert!(EarlierServer::passed(name, this().unwrap()).is_err(), "{name}");
        }
    }
}
