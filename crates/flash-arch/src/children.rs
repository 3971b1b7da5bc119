//! Processes that the server was started with, needs, and cannot have again: whoever forks for it was forked before it
//! had threads.
//!
//! When one of them ends, the server finishes what is under way and ends too, with a failure, so that whoever supervises
//! it starts it again with all its processes. What they do, and how they replace processes of their own, is not known here.

use std::fmt;
use std::io;

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// A child of the process that hears the signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub pid: Pid,
    /// For people who read logs.
    pub name: &'static str,
}

/// One that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    name: &'static str,
    /// `None` where somebody else has waited for it.
    status: Option<WaitStatus>,
}

/// The first of them that has ended, if one has.
pub(crate) fn lost(needed: &[Child]) -> Option<Lost> {
    needed.iter().find_map(|child| match waitpid(Some(child.pid), WaitOptions::NOHANG) {
        Ok(None) => None,
        Ok(Some((_, status))) => Some(child.lost(Some(status))),
        Err(_) => Some(child.lost(None)),
    })
}

impl Child {
    pub(crate) fn lost(&self, status: Option<WaitStatus>) -> Lost {
        Lost { name: self.name, status }
    }
}

impl Lost {
    /// What is said when it is noticed.
    pub(crate) fn farewell(&self) -> String {
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
pub(crate) struct Ended(pub(crate) WaitStatus);

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
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn one_that_ends_is_noticed_whoever_waits_for_it() {
        let start = || {
            let child = Command::new("sleep").arg("60").spawn().unwrap();
            let pid = Pid::from_child(&child);
            (child, Child { pid, name: "the sleeper" })
        };
        let ((mut first, one), (mut second, other)) = (start(), start());
        let needed = [one, other];
        assert!(lost(&needed).is_none() && lost(&[]).is_none());
        second.kill().unwrap();
        let give_up = Instant::now() + Duration::from_secs(30);
        let gone = loop {
            if let Some(gone) = lost(&needed) {
                break gone;
            }
            assert!(Instant::now() < give_up);
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(gone.to_string(), "the sleeper ended (signal 9)");
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(lost(&needed).map(|gone| gone.to_string()), Some("the sleeper ended".into()));
    }
}
