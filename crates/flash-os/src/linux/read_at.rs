//! `preadv2`, which can be told not to wait.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

pub(crate) fn read(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    call(file, bytes, offset, 0)
}

pub(crate) fn read_set(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::empty())
}

/// RWF_DONTCACHE: pages that the read brings into the cache leave it again. Linux 6.14.
pub(super) const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

pub(crate) fn read_once(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(bytes)], offset, DONTCACHE)
}

pub(crate) fn read_now(file: impl AsFd, bytes: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    call(file, bytes, offset, libc::RWF_NOWAIT)
}

fn call(
    file: impl AsFd,
    bytes: &mut [MaybeUninit<u8>],
    offset: u64,
    flags: libc::c_int,
) -> Result<usize, Errno> {
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let file = file.as_fd();
    let (number, file, halves) = (libc::SYS_preadv2, file.as_raw_fd(), [offset, offset >> 32]);
    let [low, high] = halves.map(|half| half as libc::c_long);
    // Not every C library has a function for it: musl 1.2.5 was the first.
    // SAFETY: the kernel writes into the bytes only, which nobody else has.
    let read = unsafe { libc::syscall(number, file, &raw const part, 1_usize, low, high, flags) };
    usize::try_from(read)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
