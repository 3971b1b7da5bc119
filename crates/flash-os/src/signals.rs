//! Signals that a process or a thread does not take, and the one that it reads instead.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// Blocks all signals in this thread, and in those that it starts from now on. SIGKILL cannot be blocked.
pub fn block_all() {
    block();
}

/// A descriptor that can be read when children have ended, for a thread that blocks SIGCHLD. It does not block.
///
/// # Errors
/// When the process cannot have a descriptor more.
pub fn child_ends() -> io::Result<OwnedFd> {
    let mut ends = MaybeUninit::uninit();
    // SAFETY: `ends` is filled by sigemptyset before it is changed and read. What signalfd returns, if it is no error, is a
    // descriptor that is owned here alone.
    unsafe {
        libc::sigemptyset(ends.as_mut_ptr());
        libc::sigaddset(ends.as_mut_ptr(), libc::SIGCHLD);
        match libc::signalfd(-1, ends.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Blocks all signals in this thread. Returns the mask that was in force, for [`restore`].
pub(crate) fn block() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both are filled before they are read: `all` by sigfillset, `before` by a call that cannot fail with
    // SIG_SETMASK and pointers that are valid.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

pub(crate) fn restore(before: &libc::sigset_t) {
    // SAFETY: `before` is a set of signals, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}
