//! A descriptor that becomes readable when another thread or process says so: an eventfd, or a pipe where there is none.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::socket_kind::Waits;
use crate::system;
use crate::system_calls::{Call, has};

#[derive(Debug)]
pub struct Waker {
    read: OwnedFd,
    /// Where to write, if that is another descriptor.
    write: Option<OwnedFd>,
}

impl Waker {
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new() -> io::Result<Self> {
        if has(Call::Eventfd) { Self::counter() } else { Self::pipe() }
    }

    fn counter() -> io::Result<Self> {
        Ok(Self { read: system::waker::counter()?, write: None })
    }

    fn pipe() -> io::Result<Self> {
        let (read, write) = system::socket::pipe(Waits::No)?;
        Ok(Self { read, write: Some(write) })
    }

    /// Makes it readable, until it is drained. Never waits.
    pub fn wake(&self) {
        // The write fails only when there is no room, and then the descriptor is readable.
        let _ = rustix::io::write(self.write.as_ref().unwrap_or(&self.read), &1_u64.to_ne_bytes());
    }

    /// From now on it is readable only if it is woken again. To be called before one looks at what the wakes were for.
    pub fn drain(&self) {
        drain(&self.read);
    }

    /// Has the next wake be an edge, for one who watches edges. To be called when it was woken.
    pub fn reset(&self) {
        if !self.is_counter() {
            self.drain();
        }
    }

    /// Whether each wake is an edge, however much was not drained.
    pub(crate) fn is_counter(&self) -> bool {
        self.write.is_none()
    }
}

/// Reads all there is.
pub(crate) fn drain(end: &OwnedFd) {
    let mut buffer = [0; 512];
    // A counter is read at once, and with it less than the buffer.
    while rustix::io::read(end, &mut buffer).is_ok_and(|count| count == buffer.len()) {}
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(waker: &Waker) -> bool {
        poll(&mut [PollFd::new(waker, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
    }

    #[test]
    fn wakes_without_number_never_wait_and_are_drained_at_once() {
        for waker in [Waker::counter().unwrap(), Waker::pipe().unwrap()] {
            assert!(!is_readable(&waker), "{waker:?}");
            // More than a pipe holds.
            (0..100_000).for_each(|_| waker.wake());
            assert!(is_readable(&waker), "{waker:?}");
            waker.drain();
            assert!(!is_readable(&waker), "{waker:?}");
            waker.wake();
            assert!(is_readable(&waker), "{waker:?}");
        }
    }
}
