//! Worker processes: forked from a process that has one thread.

use std::fs;
use std::io;

/// Who is speaking after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Worker,
    Parent { worker: i32 },
}

/// Forks. The worker has its own copy of everything, and ends with its parent.
///
/// # Errors
/// When the process has more than one thread (the others would not exist in the worker, nor ever release their
/// locks), or when the kernel refuses another process.
pub fn fork() -> io::Result<Forked> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork a process of {threads} threads")));
    }
    // SAFETY: the process has one thread, this one, so the worker's memory is as consistent as ours is now.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: asks for a signal when the parent dies; no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            Ok(Forked::Worker)
        }
        worker => Ok(Forked::Parent { worker }),
    }
}
