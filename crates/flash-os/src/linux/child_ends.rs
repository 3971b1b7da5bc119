//! signalfd.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

pub(crate) fn new() -> io::Result<OwnedFd> {
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

/// Where this thread's errno is.
pub(crate) fn errno() -> *mut libc::c_int {
    // SAFETY: it only tells a place.
    unsafe { libc::__errno_location() }
}
