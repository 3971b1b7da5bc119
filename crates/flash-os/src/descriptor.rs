//! Putting something else in the place of a descriptor: of one that other threads still refer to, and of standard error.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::system;
use crate::waker::Waker;

/// Closes what the descriptor leads to, and keeps its number for an event that nobody waits for. So threads that still use
/// the number never meet another file.
///
/// # Errors
/// If there is no descriptor left. Nothing is closed then.
pub fn close_in_place(descriptor: &OwnedFd) -> io::Result<()> {
    let placeholder = Waker::new()?;
    system::descriptor::put(placeholder.as_fd(), descriptor)
}

/// Makes this the standard error of the process.
///
/// # Errors
/// If the kernel refuses.
pub fn replace_stderr(by: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both numbers are open, or become so. Nothing owns the number of standard error; no memory is involved.
    match unsafe { libc::dup2(by.as_raw_fd(), libc::STDERR_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_closed_listener_refuses_and_keeps_its_number() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = OwnedFd::from(listener);
        TcpStream::connect(address).unwrap();
        close_in_place(&socket).unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(socket.try_clone().is_ok());
    }
}
