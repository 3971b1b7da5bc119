//! What Linux tells of a connection, and does for a listener.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) fn defer_accept(listener: BorrowedFd<'_>, seconds: i32) {
    // SAFETY: the option takes an int, and `seconds` is one that outlives the call.
    unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<i32>() as libc::socklen_t,
        );
    }
}

pub(crate) fn bytes_acked(connection: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: plain numbers, for which all zeroes is a value.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&info) as libc::socklen_t;
    let (socket, level) = (connection.as_raw_fd(), libc::IPPROTO_TCP);
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is as long.
    let result =
        unsafe { libc::getsockopt(socket, level, libc::TCP_INFO, (&raw mut info).cast(), &mut length) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(info.tcpi_bytes_acked) }
}

pub(crate) fn bytes_unacked(connection: BorrowedFd<'_>) -> io::Result<u64> {
    let mut queued: libc::c_int = 0;
    // SAFETY: the kernel writes one number into `queued`.
    let result = unsafe { libc::ioctl(connection.as_raw_fd(), libc::TIOCOUTQ, &mut queued) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(queued.unsigned_abs().into()) }
}
