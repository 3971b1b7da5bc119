//! The call `openat2`, timed. The caller decides how the walk is kept below the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::call_timer::{Stage, timed};

/// Opens `name` below `folder`; without a name, the folder itself once more.
pub(crate) fn open_at(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let name = if name.is_empty() { b"." } else { name };
    let stage = if flags.contains(OFlags::PATH) { Stage::Walk } else { Stage::Open };
    timed(stage, "openat2", || openat2(folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve))
}

/// Opens a folder to read its names. `O_NOATIME` is left out, because only the owner may set it.
pub(crate) fn open_listed(place: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_at(place.as_fd(), b"", OFlags::RDONLY | OFlags::DIRECTORY, ResolveFlags::empty())
}

/// Repeats a walk during which something was renamed, eight times at most.
pub(crate) fn persist<T>(walk: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut tries_left = 8;
    loop {
        match walk() {
            Err(Errno::AGAIN) if tries_left > 0 => tries_left -= 1,
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
