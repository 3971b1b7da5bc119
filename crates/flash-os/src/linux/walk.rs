//! `openat2`: the kernel walks.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::walk::Resolve;

/// Opens a folder to look names up in it, and for nothing else.
pub(crate) const SEARCH: OFlags = OFlags::PATH;

/// Opens what is there to look at it, and for nothing else.
pub(crate) const PLACE: OFlags = OFlags::PATH;

pub(crate) const UNCACHED: OFlags = OFlags::PATH.union(OFlags::DIRECT);

pub(crate) const NO_ACCESS_TIME: OFlags = OFlags::NOATIME;

/// The filesystem whose links the kernel makes up.
pub(crate) const MADE_UP: Option<&str> = Some("/proc");

pub(crate) fn open(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    // The numbers are the kernel's.
    openat2(folder, name, flags, Mode::empty(), ResolveFlags::from_bits_retain(resolve.0))
}
