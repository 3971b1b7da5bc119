//! `cachestat`.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

/// The number of the call: not in every libc yet, and the same on every machine.
pub const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of the range are in the cache.
pub(crate) fn cached(file: impl AsFd, range: &Range<u64>) -> io::Result<u64> {
    let asked = CachestatRange { offset: range.start, bytes: range.end - range.start };
    let mut told = Cachestat::default();
    // SAFETY: both structures are laid out as the kernel's, are valid for the call, and it keeps neither.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const asked, &raw mut told, 0) };
    if result == 0 { Ok(told.cached) } else { Err(io::Error::last_os_error()) }
}
