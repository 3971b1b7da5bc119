//! Reads of a file at an offset, which wait or do not.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::system_calls::{Call, has};
use crate::{residency, system};

/// Reads the bytes at this offset. Returns how many came and are set: 0 at the file's end.
///
/// # Errors
/// Those of pread(2).
pub fn read(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    if has(Call::Preadv2) {
        return system::read_at::read(file, bytes, offset);
    }
    let (read, _) = rustix::io::pread(&file, bytes, offset)?;
    residency::note(file, &(offset..offset + read.len() as u64));
    Ok(read.len())
}

/// The same into bytes that are set.
///
/// # Errors
/// Those of pread(2).
pub fn read_set(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    match has(Call::Preadv2) {
        true => system::read_at::read_set(file, bytes, offset),
        false => rustix::io::pread(file, bytes, offset),
    }
}

/// Like [`read`], without waiting. Where no call does that, bytes are read that are known to be in memory.
///
/// # Errors
/// Whatever it is, a read that waits may succeed.
pub fn read_now(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    if has(Call::ReadNow) {
        return system::read_at::read_now(file, bytes, offset);
    }
    match residency::holds(&file, offset..offset.saturating_add(bytes.len() as u64)) {
        true => residency::relying(|| read(file, bytes, offset)),
        false => Err(Errno::AGAIN),
    }
}

/// The call that is made, for records of calls that were slow.
pub fn call() -> &'static str {
    if has(Call::Preadv2) { "preadv2" } else { "pread" }
}
