//! Signals that a process or a thread does not take: blocked, or ignored.

use std::mem::MaybeUninit;
use std::ptr;

/// Blocks all signals in this thread, and in those that it starts from now on. SIGKILL cannot be blocked.
pub fn block_all() {
    block();
}

/// Ignores the signals that ask a process to stop, because its supervisor decides when it ends: SIGTERM (also the one
/// that a dying parent sends), SIGINT and SIGHUP, here and in later children. SIGCHLD too: the kernel then reaps
/// children that end.
pub fn ignore_termination() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
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
