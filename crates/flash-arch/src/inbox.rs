//! A loop's inbox: finished jobs, and a bell that wakes it.

use std::io;
use std::os::fd::OwnedFd;

use flash_core::job::Done;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub(crate) struct Inbox {
    finished: Mutex<Vec<(u64, Done)>>,
    bell: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { finished: Mutex::default(), bell })
    }

    /// Becomes readable, as an edge, each time it is rung.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    pub(crate) fn put(&self, token: u64, done: Done) {
        let mut finished = self.finished.lock();
        finished.push((token, done));
        let first = finished.len() == 1;
        drop(finished);
        if first {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        // A bell that cannot be rung any more is ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn empty(&self) -> Vec<(u64, Done)> {
        std::mem::take(&mut self.finished.lock())
    }
}
