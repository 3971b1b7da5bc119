//! What of the program is mapped is not listed.

use std::io;

/// Pages come with the first fault, where the system has no such flag.
#[cfg(target_os = "freebsd")]
pub(crate) use libc::MAP_PREFAULT_READ as MAP_POPULATE;
#[cfg(not(target_os = "freebsd"))]
pub(crate) const MAP_POPULATE: libc::c_int = 0;

pub(crate) fn mlock_program() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn disable_huge_pages() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
