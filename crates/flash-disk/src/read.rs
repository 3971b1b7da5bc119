//! Reads of an open file, timed. The caller decides whether a read may wait.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use bytes::Bytes;
use flash_os::cachestat;
use flash_os::unset_buf::UnsetBuf;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::blocking::Blocking;
use crate::call_timer::{self, Stage, timed};

/// How far ahead the kernel is asked to read into the page cache, without waiting.
pub(crate) const AHEAD_BYTES: Option<NonZeroU64> = NonZeroU64::new(1 << 20);
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
    match read_all(length, blocking, |_, flags| buffer.read(file, offset, flags)) {
        ReadResult::Whole(()) => {}
        other => return other.map(|()| Bytes::new()),
    }
    buffer.whole().map_or(ReadResult::Shrunk, |buffer| ReadResult::Whole(Bytes::from_owner(buffer)))
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
    read_all(bytes.len(), blocking, |done, flags| {
        let slices = &mut [IoSliceMut::new(&mut bytes[done..])];
        preadv2(file, slices, offset + done as u64, flags)
    })
}

/// Reads until so many bytes have come. `read` is told how many there are.
fn read_all(
    length: usize,
    blocking: Blocking,
    mut read: impl FnMut(usize, ReadWriteFlags) -> Result<usize, Errno>,
) -> ReadResult<()> {
    let flags = match blocking {
        Blocking::Never => ReadWriteFlags::NOWAIT,
        Blocking::ThisDevice | Blocking::Anywhere => ReadWriteFlags::empty(),
    };
    let mut done = 0;
    while done < length {
        match timed(Stage::Read, "preadv2", || read(done, flags)) {
            Ok(0) => return ReadResult::Shrunk,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            // Some filesystems cannot read without waiting.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if !blocking.waits() => return ReadResult::WouldBlock,
            Err(error) => {
                call_timer::failed(error);
                return ReadResult::Failed;
            }
        }
    }
    ReadResult::Whole(())
}
