//! Tries each call once, without a lasting effect. Any error that a working call cannot have here counts as its absence: kernels
//! before it say ENOSYS or EINVAL, containers EPERM.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ResolveFlags, memfd_create, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::descriptor_range;
use crate::system_calls::Call;

/// The limit of a process is below it.
const NOBODYS: u32 = i32::MAX as u32;

pub(crate) fn is_present(call: Call) -> bool {
    match call {
        Call::Openat2 => walks(ResolveFlags::NO_MAGICLINKS).is_ok(),
        // Without the name in the cache it would have to wait, which is an answer too.
        Call::ResolveCached => matches!(walks(ResolveFlags::CACHED), Ok(_) | Err(Errno::AGAIN)),
        // One that tells no mount is no better than fstat.
        Call::Statx => super::file_stat::at(CWD, "/", true).is_ok_and(|stat| stat.mount.is_some()),
        Call::Preadv2 => reads(ReadWriteFlags::empty()).is_ok(),
        // A filesystem may refuse the flag where the kernel knows it.
        Call::ReadNow => {
            matches!(reads(ReadWriteFlags::NOWAIT), Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP))
        }
        // Kernels that know no such flag give the same error as filesystems that do not.
        Call::ReadDontcache => reads(super::read_at::DONTCACHE).is_ok(),
        // The file may be another user's, of which nothing is told.
        Call::Cachestat => memory().is_some_and(|memory| crate::cachestat::holds(memory, 0..1).is_ok()),
        Call::Mincore => mincore(),
        Call::MemfdCreate => memory().is_some(),
        Call::CloseRange => descriptor_range::close(NOBODYS, NOBODYS),
        Call::CloseRangeCloexec => descriptor_range::close_on_exec(NOBODYS),
        Call::PidfdOpen => pidfd_open(getpid(), PidfdFlags::empty()).is_ok(),
        Call::Sendfile => sends(),
        Call::Epoll => epoll::create(epoll::CreateFlags::CLOEXEC).is_ok(),
        Call::Eventfd => eventfd(0, EventfdFlags::CLOEXEC).is_ok(),
        Call::Signalfd => super::child_ends::new().is_ok(),
        Call::Accept4 => accepts(),
        Call::SchedSetattr => finds_fault(libc::SYS_sched_setattr),
        Call::PerfEventOpen => finds_fault(libc::SYS_perf_event_open),
        Call::IoUring => super::ring::Ring::new().is_ok(),
    }
}

/// Calls that have nothing in their place, and the errors that say so.
const NEEDED: [(&str, libc::c_long, &[libc::c_int]); 6] = [
    ("dup3", libc::SYS_dup3, REFUSED),
    ("pipe2", libc::SYS_pipe2, REFUSED),
    ("recvmsg", libc::SYS_recvmsg, REFUSED),
    ("sendmsg", libc::SYS_sendmsg, REFUSED),
    ("socketpair", libc::SYS_socketpair, REFUSED),
    // Where it seems not to exist, the C library starts threads by another call.
    ("clone3", libc::SYS_clone3, &[libc::EPERM]),
];
const REFUSED: &[libc::c_int] = &[libc::ENOSYS, libc::EPERM];

/// The first call that is refused here and has nothing in its place.
pub(crate) fn refused() -> Option<&'static str> {
    let is_refused = |call: libc::c_long, errors: &[libc::c_int]| {
        // SAFETY: none of them has an effect with -1 for its descriptor, its address or its family: that is an error.
        let result = unsafe { libc::syscall(call, -1, 0, 0, 0) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        result == -1 && errno.is_some_and(|errno| errors.contains(&errno))
    };
    NEEDED.iter().find(|(_, call, errors)| is_refused(*call, errors)).map(|(name, ..)| *name)
}

fn walks(resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    openat2(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// A file that can be read, for calls that need one. The program may be another user's to read.
fn file() -> Result<File, Errno> {
    let program =
        File::open("/proc/self/exe").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
    program.or_else(|why| memory().map(File::from).ok_or(why))
}

fn reads(flags: ReadWriteFlags) -> Result<usize, Errno> {
    preadv2(file()?, &mut [IoSliceMut::new(&mut [0])], 0, flags)
}

fn memory() -> Option<OwnedFd> {
    memfd_create(c"flash-probe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()
}

fn mincore() -> bool {
    let mut page = 0;
    // SAFETY: an address of no length names no memory, and `page` is room for more than the answer.
    unsafe { libc::mincore(std::ptr::null_mut(), 0, &raw mut page) == 0 }
}

/// Whether a call that gets nothing of what it needs says so.
fn finds_fault(call: libc::c_long) -> bool {
    // SAFETY: the kernel reads nothing at the address 0, and says that it cannot.
    let result = unsafe { libc::syscall(call, 0, 0, 0, 0, 0) };
    let error = std::io::Error::last_os_error().raw_os_error();
    result < 0 && !matches!(error, Some(libc::ENOSYS | libc::EPERM))
}

/// A socket at which nobody listens has no connections: that is another error than that of a missing call.
fn accepts() -> bool {
    let Ok((near, _far)) = std::os::unix::net::UnixStream::pair() else { return false };
    !matches!(accept_with(near, SocketFlags::CLOEXEC), Err(Errno::NOSYS | Errno::PERM))
}

fn sends() -> bool {
    let Ok((near, _far)) = std::os::unix::net::UnixStream::pair() else { return false };
    file().is_ok_and(|file| rustix::fs::sendfile(near.as_fd(), file, Some(&mut 0), 1).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_refused_that_is_needed() {
        assert_eq!(refused(), None);
    }

    /// A probe that asks wrongly says that a call is missing, which nobody would notice but by the clock.
    #[test]
    fn a_call_that_this_kernel_has_is_found() {
        for call in [
            Call::Openat2,
            Call::Statx,
            Call::Preadv2,
            Call::Mincore,
            Call::MemfdCreate,
            Call::Sendfile,
            Call::Epoll,
            Call::Accept4,
            Call::SchedSetattr,
            Call::PerfEventOpen,
        ] {
            assert!(is_present(call), "{call:?}");
        }
    }
}
