//! fork(2) from a process that has one thread.
//!
//! What the child does, and who starts it again when it dies, is not decided here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{descriptor_range, posix, process};

/// Who is speaking after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Child,
    Parent { child: i32 },
}

/// Forks. The child has its own copy of everything. No system ends it with its parent: it has to notice, by a socket whose other end
/// its parent alone has.
///
/// # Errors
/// If the process has more than one thread: the others would not exist in the child, and would never release their locks. Or if
/// the kernel refuses another process.
pub fn fork() -> io::Result<Forked> {
    if let Some(threads) = process::threads()?.filter(|&threads| threads != 1) {
        return Err(io::Error::other(format!("cannot fork a process of {threads} threads")));
    }
    // SAFETY: the process has one thread, this one, so the child's memory is as consistent as ours is now.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            posix::child_ends::forget();
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
        if first < kept {
            descriptor_range::close(first, kept - 1);
        }
        first = first.max(kept + 1);
    }
    descriptor_range::close(first, u32::MAX);
}
