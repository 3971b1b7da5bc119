//! kqueue. Each direction is a filter of its own, so one descriptor may have two events.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::io::{Errno, Result};

#[cfg(target_os = "linux")]
use self::libkqueue as sys;
use crate::readiness::{Event, Interest, Mode, Ready};
#[cfg(not(target_os = "linux"))]
use libc as sys;

#[derive(Debug)]
pub(crate) struct System(OwnedFd);

const EVENTS_MAX: usize = 256;

impl System {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: what it returns, if it is no error, is a descriptor that is owned here alone.
        unsafe {
            match sys::kqueue() {
                -1 => Err(last_error()),
                queue => Ok(Self(OwnedFd::from_raw_fd(queue))),
            }
        }
    }

    pub(crate) fn add(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        let Interest { input, room, mode } = interest;
        let flags = sys::EV_ADD
            | match mode {
                Mode::Level | Mode::Exclusive => 0,
                Mode::Edge => sys::EV_CLEAR,
                Mode::Once => sys::EV_ONESHOT,
            };
        let wanted = [(input, sys::EVFILT_READ), (room, sys::EVFILT_WRITE)];
        for (_, filter) in wanted.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            self.change(what, filter, flags, token)?;
        }
        Ok(())
    }

    pub(crate) fn modify(&self, what: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        // A filter that is there keeps some of its flags.
        let _ = self.delete(what);
        self.add(what, token, interest)
    }

    pub(crate) fn delete(&self, what: BorrowedFd<'_>) -> Result<()> {
        let [read, write] =
            [sys::EVFILT_READ, sys::EVFILT_WRITE].map(|filter| self.change(what, filter, sys::EV_DELETE, 0));
        read.or(write)
    }

    fn change(&self, what: BorrowedFd<'_>, filter: i16, flags: u16, token: u64) -> Result<()> {
        // SAFETY: numbers and a pointer that nobody follows, for which all zeroes is a value.
        let mut change: sys::kevent = unsafe { mem::zeroed() };
        change.ident = what.as_raw_fd() as usize;
        change.filter = filter;
        change.flags = flags;
        change.udata = token as usize as *mut _;
        // SAFETY: one change is read, and there is no room for an event.
        match unsafe { sys::kevent(self.0.as_raw_fd(), &change, 1, ptr::null_mut(), 0, ptr::null()) } {
            -1 => Err(last_error()),
            _ => Ok(()),
        }
    }

    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<()> {
        let most = events.capacity().clamp(1, EVENTS_MAX);
        // SAFETY: as that of a change.
        let mut found: [sys::kevent; EVENTS_MAX] = unsafe { mem::zeroed() };
        let count = self.take(&mut found[..most], timeout)?;
        events.extend(found[..count].iter().map(event));
        Ok(())
    }

    pub(crate) fn wait_for_one(&self, timeout: Option<Duration>) -> Result<Option<Event>> {
        // SAFETY: as that of a change.
        let mut found: [sys::kevent; 1] = unsafe { mem::zeroed() };
        let count = self.take(&mut found, timeout)?;
        Ok(found[..count].first().map(event))
    }

    fn take(&self, found: &mut [sys::kevent], timeout: Option<Duration>) -> Result<usize> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (queue, room) = (self.0.as_raw_fd(), found.len() as libc::c_int);
        // SAFETY: there are no changes, and the kernel writes at most as many events as there is room for.
        let count = unsafe { sys::kevent(queue, ptr::null(), 0, found.as_mut_ptr(), room, timeout) };
        usize::try_from(count).map_err(|_| last_error())
    }
}

fn event(event: &sys::kevent) -> Event {
    let (filter, flags, details) = (event.filter, event.flags, event.fflags);
    let is_input = filter == sys::EVFILT_READ;
    let mut ready = if is_input { Ready::INPUT } else { Ready::ROOM };
    if flags & sys::EV_EOF != 0 {
        ready |= if is_input { Ready::ENDED } else { Ready::HUNG_UP };
        // Of a socket these are its error.
        if details != 0 {
            ready |= Ready::ERROR;
        }
    }
    Event { token: event.udata as usize as u64, ready }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl AsFd for System {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// kqueue as a library, on top of epoll.
#[cfg(target_os = "linux")]
mod libkqueue {
    pub(super) const EVFILT_READ: i16 = -1;
    pub(super) const EVFILT_WRITE: i16 = -2;
    pub(super) const EV_ADD: u16 = 0x1;
    pub(super) const EV_DELETE: u16 = 0x2;
    pub(super) const EV_ONESHOT: u16 = 0x10;
    pub(super) const EV_CLEAR: u16 = 0x20;
    pub(super) const EV_EOF: u16 = 0x8000;

    #[repr(C)]
    pub(super) struct kevent {
        pub(super) ident: usize,
        pub(super) filter: i16,
        pub(super) flags: u16,
        pub(super) fflags: u32,
        pub(super) data: isize,
        pub(super) udata: *mut libc::c_void,
    }

    #[link(name = "kqueue")]
    unsafe extern "C" {
        pub(super) fn kqueue() -> libc::c_int;
        pub(super) fn kevent(
            queue: libc::c_int,
            changes: *const kevent,
            changes_count: libc::c_int,
            events: *mut kevent,
            events_count: libc::c_int,
            timeout: *const libc::timespec,
        ) -> libc::c_int;
    }
}
