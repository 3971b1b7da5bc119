//! A loop's inbox: finished jobs, and a bell that wakes it.

use std::io;
use std::os::fd::OwnedFd;

use flash_core::job::Outcome;
use flash_os::mailbox::{Letters, Mailbox};
use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub(crate) struct Inbox {
    finished: Mailbox<(u64, Outcome)>,
    bell: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { finished: Mailbox::new(), bell })
    }

    /// Becomes readable, as an edge, each time it is rung.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(crate) fn put(&self, token: u64, outcome: Outcome) {
        if self.finished.put((token, outcome)) {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        // A bell that cannot be rung any more is ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn empty(&self) -> Letters<(u64, Outcome)> {
        self.finished.take_all()
    }
}
