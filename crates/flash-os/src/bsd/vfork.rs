//! None with a stack of the child's own.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// # Safety
/// It does nothing.
pub(crate) unsafe fn vfork(
    _main: extern "C" fn(*mut c_void) -> c_int,
    _argument: *mut c_void,
    _stack: &mut [MaybeUninit<u8>],
    _wants_pidfd: bool,
) -> io::Result<(libc::pid_t, Option<OwnedFd>)> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}
