//! execve(2) with descriptors at fixed numbers, as a service manager executes a server (sd_listen_fds(3)).
//!
//! Which program that is, and what its environment says, the caller decides.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::activation::FIRST;
use crate::descriptor_range;

/// Makes this process another program. It has `stderr` as its standard error, `descriptors` from number 3 on, and no others but
/// standard input and output. No signal is blocked there.
///
/// For a process that was forked for this. It returns only if that fails. Then the process has to end, because its descriptors
/// are no longer what their owners take them for. Standard error is the new one by then.
pub fn exec(command: &mut Command, stderr: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Error {
    let prepared = move_all(stderr, descriptors).and_then(|()| {
        // SAFETY: changes which signals this thread takes; the set of signals is this function's own, and is
        // initialized before it is read.
        unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            check(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()))
        }
    });
    match prepared {
        Ok(()) => command.exec(),
        Err(error) => error,
    }
}

fn move_all(stderr: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let end = FIRST + descriptors.len() as RawFd;
    let copy = |from: &BorrowedFd<'_>| {
        // SAFETY: makes another number for an open descriptor, above all that are taken below.
        let number = unsafe { libc::fcntl(from.as_raw_fd(), libc::F_DUPFD_CLOEXEC, end) };
        check(number).map(|()| number)
    };
    let stderr = copy(&stderr)?;
    // First all of them, because one may have the number that another is to get.
    let copies = descriptors.iter().map(copy).collect::<io::Result<Vec<RawFd>>>()?;
    let places = copies.into_iter().zip(FIRST..).chain([(stderr, libc::STDERR_FILENO)]);
    for (copy, place) in places {
        // SAFETY: the descriptors in these places are nobody's any more, as the caller has promised.
        check(unsafe { libc::dup2(copy, place) })?;
    }
    descriptor_range::close_on_exec(end.unsigned_abs());
    Ok(())
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
