//! `posix_fadvise`, and what macOS has in its place. Files have no holes made.

use std::ops::Range;
use std::os::fd::AsFd;

#[cfg(target_vendor = "apple")]
pub(crate) use self::macos::{forget, forget_range, read_ahead, read_randomly};
#[cfg(not(target_vendor = "apple"))]
pub(crate) use crate::posix::file_hints::{forget, forget_range, read_ahead, read_randomly};

/// The room stays until the file goes.
pub(crate) fn free(_file: impl AsFd, _range: Range<u64>) {}

/// It reads them when it has to.
pub(crate) fn read_access_rules(_place: impl AsFd) {}

#[cfg(target_vendor = "apple")]
mod macos {
    use std::os::fd::AsRawFd;

    use std::num::NonZeroU64;

    use rustix::io::Errno;

    use super::{AsFd, Range};

    pub(crate) fn read_randomly(file: impl AsFd) {
        // SAFETY: numbers only.
        unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_RDAHEAD, 0) };
    }

    pub(crate) fn read_ahead(file: impl AsFd, offset: u64, bytes: NonZeroU64) {
        let _ = rustix::fs::fcntl_rdadvise(file, offset, bytes.get());
    }

    pub(crate) fn forget_range(_file: impl AsFd, _range: Range<u64>) {}

    /// It keeps what it likes.
    pub(crate) fn forget(_file: impl AsFd) -> Result<(), Errno> {
        Err(Errno::NOTSUP)
    }
}
