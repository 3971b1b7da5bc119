//! Connections that are not worth accepting yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets the kernel hold connections back until their first bytes have come, or for about so many seconds.
pub fn defer_accept(listener: impl AsFd, seconds: i32) -> io::Result<()> {
    // SAFETY: the option takes an int, and `seconds` is one that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
