//! `posix_fadvise`.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{Advice, fadvise};
use rustix::io::Result;

pub(crate) fn read_randomly(file: impl AsFd) {
    let _ = fadvise(file, 0, None, Advice::Random);
}

pub(crate) fn read_ahead(file: impl AsFd, offset: u64, bytes: NonZeroU64) {
    let _ = fadvise(file, offset, Some(bytes), Advice::WillNeed);
}

pub(crate) fn forget_range(file: impl AsFd, range: Range<u64>) {
    if let Some(bytes) = NonZeroU64::new(range.end - range.start) {
        let _ = fadvise(file, range.start, Some(bytes), Advice::DontNeed);
    }
}

pub(crate) fn forget(file: impl AsFd) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed)
}
