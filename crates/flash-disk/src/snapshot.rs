//! Snapshots: private copies of files too large for the heap, in memory that `sendfile` can send.
//!
//! The page cache and a socket share a file's page. A change of the file thus changes bytes that were sent already. A
//! snapshot has pages of its own. It is sent as cheaply as the file itself, and needs no check before.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_core::cache::memory_budget::Reservation;
use flash_core::file::{OpenFile, Stamp, Window};
use flash_os::memory_file;
use flash_os::shared_heap::HeapBuf;

use crate::closer::Closer;
use crate::read::{ReadResult, read_exact};

#[derive(Debug)]
pub(crate) struct Snapshot {
    /// `None` only while it is dropped.
    copy: Option<OwnedFd>,
    room: Reservation,
    closer: Option<Arc<Closer>>,
}

const NAME: &str = "flash-snapshot";
const PIECE_BYTES: u64 = 256 << 10;

impl Snapshot {
    /// Copies a file of the size of `room`. `None` if the system has no memory for it.
    pub(crate) fn take(
        file: &OwnedFd,
        room: Reservation,
        closer: Option<Arc<Closer>>,
    ) -> ReadResult<Option<Self>> {
        copy(file, room.bytes()).map(|copy| copy.map(|copy| Self { copy: Some(copy), room, closer }))
    }

    /// A snapshot of bytes of the size of `room`. `None` if the system has no memory for it.
    pub(crate) fn of_bytes(bytes: &[u8], room: Reservation, closer: Option<Arc<Closer>>) -> Option<Self> {
        let copy = File::from(memory_file::in_memory(NAME).ok()?);
        (&copy).write_all(bytes).ok()?;
        memory_file::seal(&copy).ok()?;
        Some(Self { copy: Some(copy.into()), room, closer })
    }

    /// A snapshot of the size of `room` that another process has taken. `None` if it could still change.
    pub(crate) fn of_copy(copy: OwnedFd, room: Reservation, closer: Option<Arc<Closer>>) -> Option<Self> {
        memory_file::is_sealed(&copy).then(|| Self { copy: Some(copy), room, closer })
    }
}

fn copy(file: &OwnedFd, size: u64) -> ReadResult<Option<OwnedFd>> {
    let Ok(copy) = memory_file::in_memory(NAME).map(File::from) else { return ReadResult::Whole(None) };
    let mut piece = HeapBuf::zeroed(size.min(PIECE_BYTES) as usize);
    let mut copied = 0;
    while copied < size {
        let length = (size - copied).min(PIECE_BYTES);
        let piece = &mut piece[..length as usize];
        match read_exact(file.as_fd(), piece, copied) {
            ReadResult::Whole(()) => {}
            other => return other.map(|()| None),
        }
        if (&copy).write_all(piece).is_err() {
            return ReadResult::Whole(None);
        }
        copied += length;
    }
    // From here on it cannot change in any process.
    ReadResult::Whole(memory_file::seal(&copy).is_ok().then(|| copy.into()))
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

    fn wait_for_window(&self, _: &Stamp, window: Range<u64>, _: u64) -> Window {
        Window::Resident(window)
    }

    fn memory_bytes(&self) -> u64 {
        self.room.bytes()
    }
}
