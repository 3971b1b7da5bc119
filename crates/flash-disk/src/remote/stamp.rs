//! The stamp of a file, in messages.

use flash_core::file::Stamp;
use flash_process::codec::{Reader, Writer};

pub(super) fn put(message: &mut Writer, stamp: &Stamp) {
    let Stamp { device, inode, size, modified_ns, changed_ns } = *stamp;
    [device, inode, size].into_iter().for_each(|value| message.u64(value));
    [modified_ns, changed_ns].into_iter().for_each(|value| message.i64(value));
}

pub(super) fn take(message: &mut Reader<'_>) -> Option<Stamp> {
    let (device, inode, size) = (message.u64()?, message.u64()?, message.u64()?);
    Some(Stamp { device, inode, size, modified_ns: message.i64()?, changed_ns: message.i64()? })
}
