//! `sendfile`, which says apart from its result how much it has sent.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use rustix::io::Errno;

pub(crate) fn send(socket: impl AsFd, file: impl AsFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::OVERFLOW)?;
    // Nothing would mean all.
    if bytes == 0 {
        return Ok(0);
    }
    let (socket, file) = (socket.as_fd().as_raw_fd(), file.as_fd().as_raw_fd());
    #[cfg(target_vendor = "apple")]
    let (result, sent) = {
        let mut sent = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        // SAFETY: there are no headers, and the kernel reads and writes `sent` alone.
        (unsafe { libc::sendfile(file, socket, offset, &raw mut sent, ptr::null_mut(), 0) }, sent)
    };
    #[cfg(not(target_vendor = "apple"))]
    let (result, sent) = {
        let mut sent = 0;
        // SAFETY: there are no headers, and the kernel writes `sent` alone.
        (unsafe { libc::sendfile(file, socket, offset, bytes, ptr::null_mut(), &raw mut sent, 0) }, sent)
    };
    // A full socket, or a signal, is an error even if bytes were sent.
    match result {
        -1 if sent == 0 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(sent as usize),
    }
}
