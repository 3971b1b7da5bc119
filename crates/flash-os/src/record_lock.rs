//! Locks of single bytes of a file, between processes. The kernel frees those of a process that ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Waits until no other process has the byte.
///
/// # Errors
/// If a signal comes meanwhile, or the kernel has no room for the lock.
pub fn lock(file: impl AsFd, byte: usize) -> io::Result<()> {
    set(file, byte, Kind::Locked, libc::F_SETLKW)
}

/// # Errors
/// If another process has the byte.
pub fn try_lock(file: impl AsFd, byte: usize) -> io::Result<()> {
    set(file, byte, Kind::Locked, libc::F_SETLK)
}

/// # Errors
/// If the kernel has no room to divide a range of locked bytes.
pub fn unlock(file: impl AsFd, byte: usize) -> io::Result<()> {
    set(file, byte, Kind::Free, libc::F_SETLK)
}

fn set(file: impl AsFd, byte: usize, kind: Kind, command: libc::c_int) -> io::Result<()> {
    // SAFETY: plain numbers, for which all zeroes is a value.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = kind as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    record.l_start = byte as libc::off_t;
    record.l_len = 1;
    // SAFETY: the kernel reads the record, which lives until the call returns.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw const record) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The numbers have another type on each system.
#[derive(Clone, Copy)]
#[repr(i16)]
enum Kind {
    Locked = libc::F_WRLCK as i16,
    Free = libc::F_UNLCK as i16,
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// Whether it holds in a child, which has no lock of ours.
    fn in_child(holds: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child does nothing but system calls, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without the code that a test's end runs.
            unsafe { libc::_exit(libc::c_int::from(holds())) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the status is ours, and lives until the call returns.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        libc::WEXITSTATUS(status) == 1
    }

    #[test]
    fn one_process_has_a_byte_until_it_unlocks_it_or_ends() {
        let file = memfd_create(c"lock", MemfdFlags::CLOEXEC).unwrap();
        lock(&file, 1).unwrap();
        assert!(in_child(|| try_lock(&file, 1).is_err() && try_lock(&file, 0).is_ok()));
        try_lock(&file, 0).unwrap();
        unlock(&file, 1).unwrap();
        assert!(in_child(|| lock(&file, 1).is_ok() && try_lock(&file, 0).is_err()));
    }
}
