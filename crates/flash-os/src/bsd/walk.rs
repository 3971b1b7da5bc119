//! Flags of opening. There is no call that walks: names are walked part by part.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::posix;
use crate::walk::Resolve;

/// Opens a folder to look names up in it, and for nothing else.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const SEARCH: OFlags = OFlags::PATH;
#[cfg(target_vendor = "apple")]
pub(crate) const SEARCH: OFlags = OFlags::from_bits_retain(libc::O_SEARCH as u32);

/// Opens what is there to look at it, and for nothing else. On macOS it has to be readable.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const PLACE: OFlags = OFlags::PATH;
#[cfg(target_vendor = "apple")]
pub(crate) const PLACE: OFlags =
    OFlags::from_bits_retain(libc::O_EVTONLY as u32).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

#[cfg(not(target_vendor = "apple"))]
pub(crate) const UNCACHED: OFlags = OFlags::PATH.union(OFlags::DIRECT);
/// macOS does not tell.
#[cfg(target_vendor = "apple")]
pub(crate) const UNCACHED: OFlags = OFlags::empty();

pub(crate) const NO_ACCESS_TIME: OFlags = OFlags::empty();

/// No filesystem has links that lead anywhere but to their text.
pub(crate) const MADE_UP: Option<&str> = None;

pub(crate) fn open(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    match resolve.contains(Resolve::CACHED) {
        true => Err(Errno::AGAIN),
        false => posix::walk::open(folder, name, flags, resolve),
    }
}
