//! What a system may be told of a file. Where it does not listen, nothing is lost but time or room.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;

use crate::system;

/// The file is read here and there: the kernel does not read ahead by itself.
pub fn read_randomly(file: impl AsFd) {
    system::file_hints::read_randomly(file);
}

/// So many bytes are wanted soon.
pub fn read_ahead(file: impl AsFd, offset: u64, bytes: NonZeroU64) {
    system::file_hints::read_ahead(file, offset, bytes);
}

/// The page cache need not keep the file.
pub fn forget(file: impl AsFd) {
    let _ = system::file_hints::forget(file);
}

/// The page cache need not keep the pages that lie in the range.
pub fn forget_range(file: impl AsFd, range: Range<u64>) {
    system::file_hints::forget_range(file, range);
}

/// The system knows from now on who may do what with the file beyond its mode (POSIX ACLs), where it can be made to read that. May wait
/// for the disk.
pub fn read_access_rules(place: impl AsFd) {
    system::file_hints::read_access_rules(place);
}

/// The range is not wanted any more. Its room is freed, or stays until the file goes.
pub fn free(file: impl AsFd, range: Range<u64>) {
    system::file_hints::free(file, range);
}
