//! Reads of an open file, timed. The caller decides whether a read may wait.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use flash_os::system_calls::{Call, has};
use flash_os::unset_buf::UnsetBuf;
use flash_os::{cachestat, read_at};
use rustix::io::Errno;

use crate::blocking::Blocking;
use crate::call_timer::{self, Stage, timed};

/// How far ahead the kernel is asked to read into the page cache, without waiting.
pub(crate) const AHEAD_BYTES: NonZeroU64 = NonZeroU64::new(1 << 20).expect("it is more than 0");
/// The kernel is asked once more when no more than this is left of it.
pub(crate) const AHEAD_LEFT_BYTES: u64 = 512 << 10;

/// The result of a read of a certain length.
pub(crate) enum ReadResult<T> {
    Whole(T),
    WouldBlock,
    /// The file ended too early.
    Shrunk,
    Failed,
}

impl<T> ReadResult<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> ReadResult<U> {
        match self {
            Self::Whole(what) => ReadResult::Whole(change(what)),
            Self::WouldBlock => ReadResult::WouldBlock,
            Self::Shrunk => ReadResult::Shrunk,
            Self::Failed => ReadResult::Failed,
        }
    }
}

/// Reads so many bytes into a buffer of their own. The allocation may wait as well.
pub(crate) fn read(
    file: BorrowedFd<'_>,
    offset: u64,
    length: usize,
    blocking: Blocking,
) -> ReadResult<Bytes> {
    let buffer = match blocking.waits() {
        true => Some(UnsetBuf::new(length)),
        false if may_be_read_now(file, offset..offset + length as u64) => UnsetBuf::try_new(length),
        false => None,
    };
    let Some(mut buffer) = buffer else { return ReadResult::WouldBlock };
    match read_all(length, blocking, |_| buffer.read(file, offset, blocking.waits())) {
        ReadResult::Whole(()) => {}
        other => return other.map(|()| Bytes::new()),
    }
    buffer.whole().map_or(ReadResult::Shrunk, |buffer| ReadResult::Whole(Bytes::from_owner(buffer)))
}

/// Whether a read without waiting may be tried. If a page is absent, `RWF_NOWAIT` starts to read it, and may wait for
/// room in the disk's queue. So the pages have to be in memory. If the kernel denies the answer, the read is left to
/// helpers. Where no kernel answers, it is tried.
fn may_be_read_now(file: BorrowedFd<'_>, range: Range<u64>) -> bool {
    if !has(Call::Cachestat) {
        return true;
    }
    match cachestat::holds(file, range) {
        Ok(held) => held,
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}

/// Fills `bytes` from the file, and waits for it.
pub(crate) fn read_exact(file: BorrowedFd<'_>, bytes: &mut [u8], offset: u64) -> ReadResult<()> {
    read_all(bytes.len(), Blocking::Anywhere, |done| {
        read_at::read_set(file, &mut bytes[done..], offset + done as u64)
    })
}

/// Reads until so many bytes have come. `read` is told how many there are.
fn read_all(
    length: usize,
    blocking: Blocking,
    mut read: impl FnMut(usize) -> Result<usize, Errno>,
) -> ReadResult<()> {
    let mut done = 0;
    while done < length {
        match timed(Stage::Read, read_at::call(), || read(done)) {
            Ok(0) => return ReadResult::Shrunk,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            // Some filesystems cannot read without waiting, and say so in many ways. A read that waits tells what it is.
            Err(_) if !blocking.waits() => return ReadResult::WouldBlock,
            Err(error) => {
                call_timer::failed(error);
                return ReadResult::Failed;
            }
        }
    }
    ReadResult::Whole(())
}
