//! A handler of SIGCHLD that writes into a pipe.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::ptr;

use signal_hook::consts::SIGCHLD;

use crate::socket_kind::Waits;
use crate::system::socket::pipe;

/// This thread takes the signal from now on, which is to be blocked in all others.
pub(crate) fn new() -> io::Result<OwnedFd> {
    let (read, write) = pipe(Waits::No)?;
    signal_hook::low_level::pipe::register(SIGCHLD, write)?;
    let mut ends = MaybeUninit::uninit();
    // SAFETY: `ends` is filled by sigemptyset before it is changed and read, and the old mask is not asked for.
    unsafe {
        libc::sigemptyset(ends.as_mut_ptr());
        libc::sigaddset(ends.as_mut_ptr(), SIGCHLD);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, ends.as_ptr(), ptr::null_mut());
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn the_end_of_a_child_is_heard() {
        let ends = new().unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let patience = Timespec::try_from(Duration::from_secs(60)).unwrap();
        let mut polled = [PollFd::new(&ends, PollFlags::IN)];
        while poll(&mut polled, Some(&patience)) == Err(rustix::io::Errno::INTR) {}
        assert!(polled[0].revents().contains(PollFlags::IN));
        child.wait().unwrap();
    }
}
