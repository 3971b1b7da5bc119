//! Signals that a process or a thread does not take, and the one that it reads instead.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr;

use crate::posix;
use crate::system;
use crate::system_calls::{Call, has};

/// Blocks all signals in this thread, and in those that it starts from now on. SIGKILL cannot be blocked.
pub fn block_all() {
    block();
}

/// Takes all signals again, in this thread and in what it starts: programs inherit what is blocked.
pub fn unblock_all() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the set, and pthread_sigmask cannot fail with SIG_SETMASK and a pointer that is valid.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// A descriptor that can be read when children have ended, for a thread that blocks SIGCHLD, as all others do. It does not block.
///
/// # Errors
/// When the process cannot have two descriptors more.
pub fn child_ends() -> io::Result<OwnedFd> {
    if has(Call::Signalfd) { system::child_ends::new() } else { posix::child_ends::new() }
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
