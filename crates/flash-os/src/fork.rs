//! fork(2) from a process that has one thread.
//!
//! What the child does, and who starts it again when it dies, is not decided here.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Who is speaking after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Child,
    Parent { child: i32 },
}

/// Forks. The child has its own copy of everything, and ends with its parent.
///
/// # Errors
/// When the process has more than one thread (the others would not exist in the child, nor ever release their
/// locks), or when the kernel refuses another process.
pub fn fork() -> io::Result<Forked> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork a process of {threads} threads")));
    }
    // SAFETY: the process has one thread, this one, so the child's memory is as consistent as ours is now.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: asks for a signal when the parent dies; no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            Ok(Forked::Child)
        }
        child => Ok(Forked::Parent { child }),
    }
}

/// Closes every descriptor but standard input, output and error, and the one to keep. For a child that has just begun,
/// and never returns to code whose descriptors these were.
pub fn close_all_except(keep: impl AsFd) {
    let keep = keep.as_fd().as_raw_fd().unsigned_abs();
    for (first, last) in [(3, keep - 1), (keep + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: descriptors are numbers to the kernel, and no memory is involved. Whoever thinks to own one finds
            // it closed, which this function's callers take care does not happen.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
