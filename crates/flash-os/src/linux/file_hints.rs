//! `posix_fadvise`, and holes in files.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::retry_on_intr;

pub(crate) fn read_randomly(file: impl AsFd) {
    let _ = fadvise(file, 0, None, Advice::Random);
}

pub(crate) fn read_ahead(file: impl AsFd, offset: u64, bytes: NonZeroU64) {
    let _ = fadvise(file, offset, Some(bytes), Advice::WillNeed);
}

pub(crate) fn forget(file: impl AsFd) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

pub(crate) fn free(file: impl AsFd, range: Range<u64>) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = retry_on_intr(|| fallocate(&file, hole, range.start, range.end - range.start));
}
