//! Snapshots: private copies of files too large for the heap, in memory that `sendfile` can send.
//!
//! The page cache and a socket share a file's page. A change of the file thus changes bytes that were sent already. A
//! snapshot has pages of its own. It is sent as cheaply as the file itself, and needs no check before.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_core::cache::memory_budget::Reservation;
use flash_core::file::{OpenFile, Stamp, Window};
use flash_os::shared_heap::HeapBuf;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::blocking::Blocking;
use crate::closer::Closer;
use crate::read::{ReadResult, read_exact};

#[derive(Debug)]
pub(crate) struct Snapshot {
    /// `None` only while it is dropped.
    copy: Option<OwnedFd>,
    room: Reservation,
    closer: Option<Arc<Closer>>,
}

const PIECE_BYTES: u64 = 256 << 10;

impl Snapshot {
    /// Copies a file of the size of `room`. `None` if the system has no memory.
    pub(crate) fn take(
        file: &OwnedFd,
        room: Reservation,
        closer: Option<Arc<Closer>>,
    ) -> ReadResult<Option<Self>> {
        copy(file, room.bytes()).map(|copy| copy.map(|copy| Self { copy: Some(copy), room, closer }))
    }

    /// A snapshot of bytes of the size of `room`. `None` if the system has no memory.
    pub(crate) fn of_bytes(bytes: &[u8], room: Reservation, closer: Option<Arc<Closer>>) -> Option<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let copy = rustix::fs::memfd_create(c"flash-snapshot", flags).ok()?;
        write_all(&copy, bytes).ok()?;
        rustix::fs::fcntl_add_seals(&copy, SEALS).ok()?;
        Some(Self { copy: Some(copy), room, closer })
    }

    /// A snapshot of the size of `room` that another process has taken. `None` if it could still change.
    pub(crate) fn of_copy(copy: OwnedFd, room: Reservation, closer: Option<Arc<Closer>>) -> Option<Self> {
        // Files on a disk have no seals.
        let is_sealed = rustix::fs::fcntl_get_seals(&copy).is_ok_and(|seals| seals.contains(SEALS));
        is_sealed.then(|| Self { copy: Some(copy), room, closer })
    }
}

/// A sealed snapshot cannot change.
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

fn copy(file: &OwnedFd, size: u64) -> ReadResult<Option<OwnedFd>> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let Ok(copy) = rustix::fs::memfd_create(c"flash-snapshot", flags) else { return ReadResult::Whole(None) };
    let mut piece = HeapBuf::zeroed(size.min(PIECE_BYTES) as usize);
    let mut copied = 0;
    while copied < size {
        let length = (size - copied).min(PIECE_BYTES);
        let piece = &mut piece[..length as usize];
        match read_exact(file.as_fd(), piece, copied, Blocking::Anywhere) {
            ReadResult::Whole(()) => {}
            other => return other.map(|()| None),
        }
        if write_all(&copy, piece).is_err() {
            return ReadResult::Whole(None);
        }
        copied += length;
    }
    // From here on it cannot change in any process.
    ReadResult::Whole(rustix::fs::fcntl_add_seals(&copy, SEALS).is_ok().then_some(copy))
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl AsFd for Snapshot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.copy.as_ref().expect("a snapshot is open until it is dropped").as_fd()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // To free its pages takes time.
        if let (Some(copy), Some(closer)) = (self.copy.take(), &self.closer) {
            closer.close(copy);
        }
    }
}

/// Each window is resident, and never changes.
impl OpenFile for Snapshot {
    fn window_now(&self, _: &Stamp, window: Range<u64>) -> Window {
        Window::Resident(window)
    }

    fn load_window(&self, _: &Stamp, window: Range<u64>, _: bool) -> Window {
        Window::Resident(window)
    }

    fn wait_for_window(&self, _: &Stamp, window: Range<u64>) -> Window {
        Window::Resident(window)
    }

    fn memory_bytes(&self) -> u64 {
        self.room.bytes()
    }
}
