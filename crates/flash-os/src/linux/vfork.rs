//! clone(2) as vfork(2), with a stack of the child's own.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// Runs `main` in a child that has this process's memory, and waits until it executes a program or ends. Returns its number, and the
/// descriptor of it that is wanted.
///
/// # Safety
/// `main` never returns or unwinds. It writes nothing but its stack, what `argument` points at, and its thread's errno. All signals
/// are held back.
pub(crate) unsafe fn vfork(
    main: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
    stack: &mut [MaybeUninit<u8>],
    wants_pidfd: bool,
) -> io::Result<(libc::pid_t, Option<OwnedFd>)> {
    let mut pidfd: c_int = -1;
    let top = stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % 16);
    let wanted = if wants_pidfd { libc::CLONE_PIDFD } else { 0 };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | wanted;
    // SAFETY: nobody else uses the stack, and `main` is as the caller says. With CLONE_VFORK this thread sleeps until the child has
    // another memory or is gone, so that `argument` outlives its use. The kernel writes a descriptor where `pidfd` is, or nothing.
    let pid = unsafe { libc::clone(main, top.cast(), flags, argument, &raw mut pidfd) };
    if pid == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it, for us.
    Ok((pid, (pidfd != -1).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) })))
}
