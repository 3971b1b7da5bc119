//! fork(2) from a process that has one thread.
//!
//! What the child does, and who starts it again when it dies, is not decided here.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Who is speaking after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Child,
    Parent { child: i32 },
}

/// Forks. The child has its own copy of everything, and ends with its parent.
///
/// # Errors
/// If the process has more than one thread: the others would not exist in the child, and would never release their locks. Or if
/// the kernel refuses another process.
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

/// Closes every descriptor but standard input, output and error, and those to keep. For a child that has just begun,
/// and never returns to code whose descriptors these were.
pub fn close_all_except(keep: &[BorrowedFd<'_>]) {
    let mut keep: Vec<u32> = keep.iter().map(|kept| kept.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let mut first = 3;
    for kept in keep {
        close_range(first, kept - 1);
        first = first.max(kept + 1);
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    if first <= last {
        // SAFETY: descriptors are numbers to the kernel, and no memory is involved. Whoever thinks to own one finds it
        // closed, which callers of `close_all_except` take care does not happen.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}
