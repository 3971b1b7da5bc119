//! `fstat` is all there is.

use rustix::fs::StatVfsMountFlags;

pub(crate) use crate::posix::file_stat::{at, of, of as walked};

/// Mounts that keep no times of access. Of others nothing is told.
pub(crate) const KEEPS_NONE: StatVfsMountFlags = StatVfsMountFlags::RDONLY;
