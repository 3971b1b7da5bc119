//! pidfd_open(2), pidfd_send_signal(2), and what `/proc` says of their descriptors.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

pub(crate) fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

pub(crate) fn number_of(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    // It is -1 once the process has been waited for.
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (number > 0).then_some(number)
}

pub(crate) fn send_to_group(leader: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 1 << 2;
    let information = ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the call, and without information nothing is read or written.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            leader.as_raw_fd(),
            signal,
            information,
            PIDFD_SIGNAL_PROCESS_GROUP,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
