//! The stamp of a file, in messages.

use flash_core::file::Stamp;
use flash_process::codec::{Reader, Writer};

pub(super) fn put(words: &mut Writer, stamp: &Stamp) {
    let Stamp { device, inode, size, modified_ns, changed_ns } = *stamp;
    [device, inode, size].into_iter().for_each(|value| words.u64(value));
    [modified_ns, changed_ns].into_iter().for_each(|value| words.i64(value));
}

pub(super) fn take(words: &mut Reader<'_>) -> Option<Stamp> {
    let (device, inode, size) = (words.u64()?, words.u64()?, words.u64()?);
    Some(Stamp { device, inode, size, modified_ns: words.i64()?, changed_ns: words.i64()? })
}
