//! Opening a name that a client gave: it is kept below a folder, or at least on its mount, whatever links lie on the way.
//!
//! Linux does it in one call. Elsewhere names are walked part by part.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::system_calls::{Call, has};
use crate::{posix, system};

/// Opens what is there to look at it, and for nothing else: a file need not be readable, and nothing happens to a device. Where a system
/// has no such flag, it has to be readable.
pub const PLACE: OFlags = system::walk::PLACE;

/// Opens a folder to look names up in it, and for nothing else: it need not be readable.
pub const SEARCH: OFlags = system::walk::SEARCH;

/// A descriptor with one of these flags is read past the page cache, or not at all.
pub const UNCACHED: OFlags = system::walk::UNCACHED;

/// With it a read leaves the time of access as it is, where a system has such a flag. Only the file's owner may use it.
pub const NO_ACCESS_TIME: OFlags = system::walk::NO_ACCESS_TIME;

/// What a walk does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolve(pub(crate) u64);

impl Resolve {
    /// It only keeps to the name.
    pub const ANY: Self = Self(0);
    /// It stays on the mount where it begins: `EXDEV`.
    pub const NO_XDEV: Self = Self(1);
    /// It follows none of the links that the system makes up, as those of a process's open files: `ELOOP`.
    pub const NO_MAGICLINKS: Self = Self(2);
    /// It follows no symbolic links: `ELOOP`.
    pub const NO_SYMLINKS: Self = Self(4);
    /// It never leaves the folder where it begins, and follows no absolute links: `EXDEV`.
    pub const BENEATH: Self = Self(8);
    /// It does not wait: `EAGAIN` where the answer is not in memory, or nobody can tell.
    pub const CACHED: Self = Self(0x20);

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Resolve {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// Opens what `name` leads to from the folder. `EAGAIN` if something was renamed meanwhile.
///
/// # Errors
/// Those of open(2), and those that [`Resolve`] tells.
pub fn open(folder: BorrowedFd<'_>, name: &[u8], flags: OFlags, resolve: Resolve) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let is_cached = resolve.contains(Resolve::CACHED);
    if has(Call::Openat2) && (!is_cached || has(Call::ResolveCached)) {
        return system::walk::open(folder, name, flags, resolve);
    }
    if is_cached { Err(Errno::AGAIN) } else { posix::walk::open(folder, name, flags, resolve) }
}

/// The call that walks, for records of calls that were slow.
pub fn call() -> &'static str {
    if has(Call::Openat2) { "openat2" } else { "openat" }
}
