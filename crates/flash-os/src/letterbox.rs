//! A mailbox with a bell: a descriptor that becomes readable when there is something in it.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

use crate::mailbox::{Letters, Mailbox};

pub struct Letterbox<T> {
    letters: Mailbox<T>,
    bell: OwnedFd,
}

impl<T> Letterbox<T> {
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mailbox::new(), bell })
    }

    /// Becomes readable, as an edge, each time it is rung.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Never waits.
    pub fn put(&self, letter: T) {
        if self.letters.put(letter) {
            self.ring();
        }
    }

    pub fn ring(&self) {
        // A bell that cannot be rung any more is ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub fn take_all(&self) -> Letters<T> {
        self.letters.take_all()
    }
}

impl<T> fmt::Debug for Letterbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Letterbox").field(&self.letters).finish()
    }
}
