//! Opening an event, and turning it on and off.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::attributes::{Attributes, FLAG_FD_CLOEXEC};

/// Opens an event of one thread, whatever processor it is on.
pub(super) fn open(attributes: &Attributes, thread: u32) -> io::Result<OwnedFd> {
    let (any_processor, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: `attributes` is a whole `perf_event_attr` that says its size; the kernel only reads it.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread as libc::pid_t,
            any_processor,
            no_group,
            FLAG_FD_CLOEXEC,
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(event as RawFd) })
}

/// Enables or disables an event.
pub(super) fn control(event: &OwnedFd, request: libc::c_ulong) {
    // SAFETY: both requests take no memory, only the number 0.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) };
    debug_assert_eq!(result, 0, "an open event can be enabled and disabled");
}
