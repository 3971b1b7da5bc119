//! A queue whose consumer sleeps on an eventfd: the descriptor becomes readable when a value is sent.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::EventfdFlags;

use crate::mpsc::{Drain, Queue};

pub struct Channel<T> {
    queue: Queue<T>,
    eventfd: OwnedFd,
}

impl<T> Channel<T> {
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new() -> io::Result<Self> {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Queue::new(), eventfd })
    }

    /// Becomes readable, as an edge, each time the consumer is woken.
    pub fn eventfd(&self) -> &OwnedFd {
        &self.eventfd
    }

    /// Never waits.
    pub fn send(&self, value: T) {
        if self.queue.push(value) {
            self.wake();
        }
    }

    pub fn wake(&self) {
        // The write fails only when the counter is at its maximum, and then the descriptor is readable.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    pub fn drain(&self) -> Drain<T> {
        self.queue.drain()
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.queue).finish()
    }
}
