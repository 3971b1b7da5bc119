//! `pread`, which always waits.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::io::{Errno, pread};

pub(crate) fn read(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    pread(file, bytes, offset).map(|(read, _)| read.len())
}

pub(crate) fn read_set(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    pread(file, bytes, offset)
}

/// What is read stays in the cache as long as it does.
pub(crate) fn read_once(_file: impl AsFd, _bytes: &mut [u8], _offset: u64) -> Result<usize, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Nobody can tell whether it would wait.
pub(crate) fn read_now(
    _file: impl AsFd,
    _bytes: &mut [MaybeUninit<u8>],
    _offset: u64,
) -> Result<usize, Errno> {
    Err(Errno::AGAIN)
}
