//! Reads the rest of a response that has no reader any more. A process has a limited time to notice that its client left.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use flash_os::poller::Interest;
use rustix::io::Errno;

use crate::background::PendingIo;

pub(super) struct Draining {
    stream: OwnedFd,
    give_up_at: Instant,
    on_end: OnEnd,
}

/// Called on the background thread, with whether the answer has ended in time.
type OnEnd = Box<dyn FnOnce(bool) + Send>;

/// How long a process may take to notice that its client is gone. Then it is ended.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// What is read at a time.
const BUFFER_BYTES: usize = 64 << 10;

impl Draining {
    pub(super) fn new(stream: OwnedFd, on_end: OnEnd) -> Self {
        Self { stream, give_up_at: Instant::now() + DRAIN_MAX, on_end }
    }
}

impl PendingIo for Draining {
    fn stream(&self) -> &OwnedFd {
        &self.stream
    }

    fn interest(&self) -> Interest {
        Interest::INPUT
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn advance(&mut self) -> bool {
        let mut buffer = vec![0; BUFFER_BYTES];
        let read = rustix::io::read(&self.stream, &mut buffer[..]);
        !matches!(read, Ok(1..) | Err(Errno::AGAIN | Errno::INTR))
    }

    fn finish(self: Box<Self>) {
        (self.on_end)(true);
    }

    fn give_up(self: Box<Self>) {
        (self.on_end)(false);
    }

    fn close(self: Box<Self>) {}
}
