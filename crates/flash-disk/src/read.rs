//! Reads of an open file, timed. The caller decides whether a read may wait.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use flash_os::cachestat;
use flash_os::shared_heap::HeapBuf;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::blocking::Blocking;
use crate::call_timer::{Stage, timed};

/// How far ahead the kernel is asked to read into the page cache, without waiting.
pub(crate) const AHEAD_BYTES: Option<NonZeroU64> = NonZeroU64::new(1 << 20);
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
    let block = match blocking.waits() {
        true => Some(HeapBuf::zeroed(length)),
        false if may_be_read_now(file, offset..offset + length as u64) => HeapBuf::try_zeroed(length),
        false => None,
    };
    let Some(mut block) = block else { return ReadResult::WouldBlock };
    read_exact(file, &mut block, offset, blocking).map(|()| Bytes::from_owner(block))
}

/// Whether a read without waiting may be tried. If a page is absent, `RWF_NOWAIT` starts to read it, and may wait for
/// room in the disk's queue. So the pages have to be in memory. If the kernel denies the answer, the read is left to
/// helpers. Before Linux 6.5 no kernel answers, and it is tried.
fn may_be_read_now(file: BorrowedFd<'_>, range: Range<u64>) -> bool {
    match cachestat::holds(file, range) {
        Ok(held) => held,
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}

/// Fills `bytes` from the file.
pub(crate) fn read_exact(
    file: BorrowedFd<'_>,
    bytes: &mut [u8],
    offset: u64,
    blocking: Blocking,
) -> ReadResult<()> {
    let flags = match blocking {
        Blocking::Never => ReadWriteFlags::NOWAIT,
        Blocking::ThisDevice | Blocking::Anywhere => ReadWriteFlags::empty(),
    };
    let mut done = 0;
    while done < bytes.len() {
        let slices = &mut [IoSliceMut::new(&mut bytes[done..])];
        match timed(Stage::Read, "preadv2", || preadv2(file, slices, offset + done as u64, flags)) {
            Ok(0) => return ReadResult::Shrunk,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            // Some filesystems cannot read without waiting.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if !blocking.waits() => return ReadResult::WouldBlock,
            Err(_) => return ReadResult::Failed,
        }
    }
    ReadResult::Whole(())
}
