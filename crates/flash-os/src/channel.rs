//! A queue whose consumer sleeps on a waker: its descriptor becomes readable when a value is sent.

use std::fmt;
use std::io;

use crate::mpsc::{Drain, Queue};
use crate::waker::Waker;

pub struct Channel<T> {
    queue: Queue<T>,
    waker: Waker,
}

impl<T> Channel<T> {
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new() -> io::Result<Self> {
        Ok(Self { queue: Queue::new(), waker: Waker::new()? })
    }

    /// Woken each time that the consumer is to look.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Never waits.
    pub fn send(&self, value: T) {
        if self.queue.push(value) {
            self.wake();
        }
    }

    pub fn wake(&self) {
        self.waker.wake();
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
