//! epoll.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags as Flag};
use rustix::io::Result;

use crate::readiness::{Event, Interest, Mode, Ready};

#[derive(Debug)]
pub(crate) struct System(OwnedFd);

const EVENTS_MAX: usize = 256;

impl System {
    pub(crate) fn new() -> Result<Self> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self)
    }

    pub(crate) fn add(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        epoll::add(&self.0, what, EventData::new_u64(token), flags(interest))
    }

    pub(crate) fn modify(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(&self.0, what, EventData::new_u64(token), flags(interest))
    }

    pub(crate) fn delete(&self, what: BorrowedFd<'_>) -> Result<()> {
        epoll::delete(&self.0, what)
    }

    #[inline]
    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut found = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let most = events.capacity().clamp(1, EVENTS_MAX);
        let (found, _) = epoll::wait(&self.0, &mut found[..most], timeout.as_ref())?;
        events.extend(found.iter().map(event));
        Ok(())
    }

    pub(crate) fn wait_for_one(&self, timeout: Option<Duration>) -> Result<Option<Event>> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut found = [const { MaybeUninit::uninit() }; 1];
        let (found, _) = epoll::wait(&self.0, &mut found[..], timeout.as_ref())?;
        Ok(found.first().map(event))
    }
}

#[inline]
fn event(event: &epoll::Event) -> Event {
    let flags = event.flags;
    Event { token: event.data.u64(), ready: Ready(flags.bits()) }
}

fn flags(Interest { input, room, mode }: Interest) -> Flag {
    let mut flags = Flag::empty();
    flags.set(Flag::IN, input);
    flags.set(Flag::OUT, room);
    match mode {
        Mode::Level => return flags,
        Mode::Exclusive => return flags | Flag::EXCLUSIVE,
        Mode::Edge => flags |= Flag::ET,
        Mode::Once => flags |= Flag::ONESHOT,
    }
    flags.set(Flag::RDHUP, input);
    flags
}

impl AsFd for System {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
