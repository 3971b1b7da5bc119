//! A handler of SIGCHLD that writes into a pipe.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::socket_kind::Waits;
use crate::system;

/// Where the handler writes: to the pipe of this process, for as long as it lives.
static PIPE: AtomicI32 = AtomicI32::new(NOWHERE);
const NOWHERE: c_int = -1;

/// This thread takes the signal from now on, which is to be blocked in all others.
pub(crate) fn new() -> io::Result<OwnedFd> {
    let (read, write) = system::socket::pipe(Waits::No)?;
    PIPE.store(write.into_raw_fd(), Ordering::Relaxed);
    let mut ends = MaybeUninit::uninit();
    // SAFETY: `action` is plain numbers, for which all zeroes is a value, and its handler calls what a handler may. `ends` is filled by
    // sigemptyset before it is changed and read. What was in force before is not asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tell as extern "C" fn(c_int) as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut());
        libc::sigemptyset(ends.as_mut_ptr());
        libc::sigaddset(ends.as_mut_ptr(), libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, ends.as_ptr(), ptr::null_mut());
    }
    Ok(read)
}

/// In a child that was forked: the pipe is its parent's, and its number may become another descriptor's.
pub(crate) fn forget() {
    PIPE.store(NOWHERE, Ordering::Relaxed);
}

extern "C" fn tell(_signal: c_int) {
    let pipe = PIPE.load(Ordering::Relaxed);
    // SAFETY: errno is this thread's, and what it interrupted has it back. The kernel reads one byte. A full pipe is readable already.
    unsafe {
        let errno = system::child_ends::errno();
        let before = *errno;
        libc::write(pipe, (&raw const pipe).cast(), 1);
        *errno = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_forked_tells_nobody() {
        // In a process of its own: the handler is one for all threads.
        // SAFETY: the child calls the kernel alone, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = || -> io::Result<bool> {
                let read = new()?;
                let has_byte = || rustix::io::read(&read, &mut [0; 8][..]) == Ok(1);
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CHILD)?;
                let is_told = has_byte();
                forget();
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CHILD)?;
                Ok(is_told && !has_byte())
            };
            // SAFETY: ends the child without the code that a test's end runs.
            unsafe { libc::_exit(i32::from(!is_right().unwrap_or(false))) };
        }
        let mut status = 0;
        // SAFETY: `status` is a number of ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }
}
