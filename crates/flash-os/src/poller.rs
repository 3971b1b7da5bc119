//! Waiting for events of many descriptors: with the system's own call, or with poll(2) where there is none.
//!
//! An edge is reported again when more comes, and that is all with epoll and kqueue. poll(2) knows levels only. There an edge is
//! reported once, and is silent until [`Poller::rearm`] asks for it again: by those who have read all that there was, or found no room.
//! Whoever knows that there are bytes and does not read them, because a job is under way or the peer takes nothing, leaves that
//! direction out. So what is there and not wanted wakes nobody, and an idle loop sleeps.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, Result};

#[cfg(all(test, feature = "libkqueue"))]
use crate::bsd::poller::System;
use crate::posix::poller::Poll;
pub use crate::readiness::{Event, Interest, Ready};
#[cfg(not(all(test, feature = "libkqueue")))]
use crate::system::poller::System;
use crate::system_calls::{Call, has};
use crate::waker::{self, Waker};

/// What poll(2) is asked for, and tells, of a peer that sends no more. Where there is no such flag, a read finds it.
pub const ENDED: PollFlags =
    PollFlags::from_bits_retain(if cfg!(target_os = "linux") { Ready::ENDED.0 as _ } else { 0 });

/// Many threads may wait in it.
#[derive(Debug)]
pub struct Poller {
    kind: Kind,
    /// The token of a waker that must be drained when it is reported, and the end that is read.
    drained: OnceLock<(u64, OwnedFd)>,
}

#[derive(Debug)]
enum Kind {
    System(System),
    Poll(Poll),
}

impl Poller {
    /// # Errors
    /// When the process cannot have a descriptor more.
    pub fn new() -> io::Result<Self> {
        if has(Call::Epoll) { Self::of_system() } else { Self::of_poll() }
    }

    fn of_system() -> io::Result<Self> {
        Ok(Self { kind: Kind::System(System::new()?), drained: OnceLock::new() })
    }

    fn of_poll() -> io::Result<Self> {
        Ok(Self { kind: Kind::Poll(Poll::new()?), drained: OnceLock::new() })
    }

    /// Watches a descriptor that is not watched yet. It is forgotten when it is closed, with all its copies in all processes; before
    /// that, by [`Poller::delete`] or [`Poller::disarm`].
    ///
    /// # Errors
    /// When the kernel has no memory for it, or cannot watch it.
    pub fn add(&self, what: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        match &self.kind {
            Kind::System(system) => system.add(what.as_fd(), token, interest),
            Kind::Poll(poll) => poll.set(what.as_fd(), token, interest),
        }
    }

    /// Changes what a descriptor is watched for.
    ///
    /// # Errors
    /// `NOENT` if it is not watched. The poller may also watch it from now on.
    pub fn modify(&self, what: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        match &self.kind {
            Kind::System(system) => system.modify(what.as_fd(), token, interest),
            Kind::Poll(poll) => poll.modify(what.as_fd(), token, interest),
        }
    }

    /// Watches a descriptor no more.
    ///
    /// # Errors
    /// `NOENT` if it is not watched.
    pub fn delete(&self, what: impl AsFd) -> Result<()> {
        match &self.kind {
            Kind::System(system) => system.delete(what.as_fd()),
            Kind::Poll(poll) => poll.delete(what.as_fd()),
        }
    }

    /// Asks for a watched descriptor's next edge. Where an edge goes on by itself, this does nothing.
    ///
    /// # Errors
    /// When the poller cannot watch it.
    #[inline]
    pub fn rearm(&self, what: impl AsFd, token: u64, input: bool, room: bool) -> Result<()> {
        match &self.kind {
            Kind::System(_) => Ok(()),
            Kind::Poll(poll) => poll.set(what.as_fd(), token, Interest::new(input, room).edge()),
        }
    }

    /// The same for one whose end the next read finds: where neither direction is wanted, nothing is told of it.
    ///
    /// # Errors
    /// When the poller cannot watch it.
    #[inline]
    pub fn rearm_wanted(&self, what: impl AsFd, token: u64, input: bool, room: bool) -> Result<()> {
        match &self.kind {
            Kind::Poll(poll) if !(input || room) => {
                poll.silence(what.as_fd());
                Ok(())
            }
            _ => self.rearm(what, token, input, room),
        }
    }

    /// Asks for no event of a descriptor, which is about to be closed, or is another's for a while. Where a closed descriptor is
    /// forgotten by itself, and an event more does no harm, this does nothing.
    #[inline]
    pub fn disarm(&self, what: impl AsFd) {
        if let Kind::Poll(poll) = &self.kind {
            // It may have been reported meanwhile.
            let _ = poll.delete(what.as_fd());
        }
    }

    /// Watches a waker, which nobody else has to drain. A poller has one at most.
    ///
    /// # Errors
    /// As [`Poller::add`], or when the process cannot have a descriptor more.
    pub fn add_waker(&self, waker: &Waker, token: u64) -> io::Result<()> {
        if matches!(self.kind, Kind::System(_)) && waker.is_counter() {
            // Each wake is an edge, whatever was read.
            return Ok(self.add(waker, token, Interest::INPUT.edge())?);
        }
        let end = waker.as_fd().try_clone_to_owned()?;
        self.add(&end, token, Interest::INPUT)?;
        self.drained.set((token, end)).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    /// Waits for events, of which there may be as many as the vector has room for. Without a timeout, until there is one, or a signal.
    ///
    /// # Errors
    /// When the kernel has no memory for it.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let waited = match &self.kind {
            Kind::System(system) => system.wait(events, timeout),
            Kind::Poll(poll) => poll.wait(events, timeout),
        };
        match waited {
            Ok(()) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if let Some((token, end)) = self.drained.get()
            && events.iter().any(|event| event.token == *token)
        {
            waker::drain(end);
        }
        Ok(())
    }

    /// Waits for one event, and leaves others for other threads. `None` after the timeout. It drains no waker.
    ///
    /// # Errors
    /// When it was interrupted, or the kernel has no memory for it.
    pub fn wait_for_one(&self, timeout: Option<Duration>) -> Result<Option<Event>> {
        match &self.kind {
            Kind::System(system) => system.wait_for_one(timeout),
            Kind::Poll(poll) => poll.wait_for_one(timeout),
        }
    }

    /// Whether there is an event now.
    pub fn has_event(&self) -> bool {
        let mut polled = self.polled();
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default()))
            .is_ok_and(|count| count > 0)
    }

    /// What tells, among others' descriptors, when there is an event.
    pub fn polled(&self) -> Vec<PollFd<'_>> {
        match &self.kind {
            Kind::System(system) => vec![PollFd::new(system, PollFlags::IN)],
            Kind::Poll(poll) => poll.polled(),
        }
    }
}

#[cfg(test)]
mod tests;
