//! Holes in files.

use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

pub(crate) use crate::posix::file_hints::{forget, read_ahead, read_randomly};

pub(crate) fn free(file: impl AsFd, range: Range<u64>) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = retry_on_intr(|| fallocate(&file, hole, range.start, range.end - range.start));
}
