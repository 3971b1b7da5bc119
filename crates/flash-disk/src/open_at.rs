//! A walk, timed, and opening again what is open. The caller decides how a walk is kept below the root.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use flash_os::walk::{self, Resolve};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::call_timer::{Stage, timed};

/// Opens `name` below `folder`; without a name, the folder itself once more.
pub(crate) fn open_at(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    let name = if name.is_empty() { b"." } else { name };
    let stage =
        if flags.contains(walk::PLACE) || flags.contains(walk::SEARCH) { Stage::Walk } else { Stage::Open };
    timed(stage, walk::call(), || walk::open(folder, name, flags, resolve))
}

/// How files are opened: nothing waits for the other end of a FIFO, and no terminal becomes the process's own.
pub(crate) const READ_FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the file behind a descriptor for reading, without a walk to it. Position, flags and locks of the new descriptor are its own:
/// whoever gets it changes nothing for others.
pub fn open_again(file: impl AsFd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let open = |flags| {
        let flags = READ_FILE | OFlags::CLOEXEC | flags;
        persist(|| timed(Stage::Open, "openat", || openat(CWD, path.as_str(), flags, Mode::empty())))
    };
    // A read sets the time of access. Only the file's owner may prevent that.
    match open(walk::NO_ACCESS_TIME) {
        Err(Errno::PERM) => open(OFlags::empty()),
        result => result,
    }
}

/// Opens a folder to read its names. `O_NOATIME` is left out, because only the owner may set it.
pub(crate) fn open_listed(place: &OwnedFd) -> Result<OwnedFd, Errno> {
    open_at(place.as_fd(), b"", OFlags::RDONLY | OFlags::DIRECTORY, Resolve::ANY)
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
