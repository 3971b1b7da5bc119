//! A loop's inbox: finished jobs, programs that have begun, and a bell that wakes it.

use std::io;
use std::os::fd::OwnedFd;

use flash_core::job::Outcome;
use flash_core::program::Begun;
use flash_os::mailbox::{Letters, Mailbox};
use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub(crate) struct Inbox {
    letters: Mailbox<(u64, Letter)>,
    bell: OwnedFd,
}

#[derive(Debug)]
pub(crate) enum Letter {
    Done(Outcome),
    Begun(Begun),
}

#[cfg(test)]
impl Letter {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Done(outcome) => outcome,
            Self::Begun(begun) => panic!("not a job: {begun:?}"),
        }
    }
}

impl From<Outcome> for Letter {
    fn from(outcome: Outcome) -> Self {
        Self::Done(outcome)
    }
}

impl From<Begun> for Letter {
    fn from(begun: Begun) -> Self {
        Self::Begun(begun)
    }
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mailbox::new(), bell })
    }

    /// Becomes readable, as an edge, each time it is rung.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(crate) fn put(&self, token: u64, letter: impl Into<Letter>) {
        if self.letters.put((token, letter.into())) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        // A bell that cannot be rung any more is ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn empty(&self) -> Letters<(u64, Letter)> {
        self.letters.take_all()
    }
}
