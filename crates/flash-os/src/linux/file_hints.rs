//! Holes in files, and POSIX ACLs.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, fallocate, fgetxattr};
use rustix::io::retry_on_intr;

pub(crate) use crate::posix::file_hints::{forget, forget_range, read_ahead, read_randomly};

pub(crate) fn free(file: impl AsFd, range: Range<u64>) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = retry_on_intr(|| fallocate(&file, hole, range.start, range.end - range.start));
}

/// Whatever the kernel answers, it knows the rules then, if the filesystem has any.
pub(crate) fn read_access_rules(place: impl AsFd) {
    let _ = fgetxattr(place, c"system.posix_acl_access", &mut [0_u8; 0]);
}
