//! An open file on a local disk, and its windows: copies, or ranges of the page cache itself where the site says that
//! its files are never changed in place.

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flash_core::file::{self, Stamp, Window};
use flash_os::cachestat;
use flash_os::residency::Residency;
use flash_os::shared_heap::HeapBuf;
use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::closer::Closer;
use crate::meter::{Stage, timed};
use crate::root;
use crate::{Pace, Sending};

#[derive(Debug)]
pub(crate) struct OpenFile {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    sending: Sending,
    residency_assumed: bool,
    mount: Option<u64>,
    /// Made at the first look, `None` if that failed.
    residency: OnceLock<Option<Residency>>,
    closer: Option<Arc<Closer>>,
}

impl OpenFile {
    pub(crate) fn new(
        file: OwnedFd,
        sending: Sending,
        residency_assumed: bool,
        mount: Option<u64>,
        closer: Option<Arc<Closer>>,
    ) -> Self {
        Self { file: Some(file), sending, residency_assumed, mount, residency: OnceLock::new(), closer }
    }

    /// Whether pages are sent as they are.
    fn lends(&self) -> bool {
        matches!(self.sending, Sending::Pages | Sending::Map)
    }

    /// Reads the beginning of a window into the page cache. Failures will show when somebody asks for it.
    pub(crate) fn warm(&self, window: Range<u64>) {
        let bytes = length(&window, READ_BYTES_MAX);
        let _ = read_exact(self.as_fd(), &mut HeapBuf::zeroed(bytes), window.start, Pace::Patient);
    }

    /// Whether the open file still holds the bytes of `stamp`. A copy is taken first and this asked afterwards: writes
    /// set the time of change before they bring bytes.
    fn is_unchanged(&self, stamp: &Stamp) -> bool {
        let file = self.file.as_ref().expect("an open file is open until it is dropped");
        root::examine(file).is_ok_and(|examined| stamp.same_content(&examined.stamp))
    }

    fn copy(&self, stamp: &Stamp, window: &Range<u64>, bytes_max: u64, pace: Pace) -> Window {
        let anew = match self.sending {
            Sending::Anew => match reopened(self.as_fd()) {
                Ok(file) => Some(file),
                Err(_) => return Window::Failed,
            },
            _ => None,
        };
        let file = anew.as_ref().map_or(self.as_fd(), AsFd::as_fd);
        match read(file, window.start, length(window, bytes_max), pace) {
            Reading::Whole(bytes) if self.is_unchanged(stamp) => Window::Copied(bytes),
            Reading::Whole(_) | Reading::Shrunk => Window::Changed,
            Reading::WouldBlock => Window::Absent,
            Reading::Failed => Window::Failed,
        }
    }

    fn residency(&self, size: u64) -> Option<&Residency> {
        self.residency.get_or_init(|| Residency::new(self, size).ok()).as_ref()
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_ref().expect("an open file is open until it is dropped").as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let (Some(file), Some(closer)) = (self.file.take(), &self.closer) {
            closer.close(file);
        }
    }
}

impl file::OpenFile for OpenFile {
    fn window_now(&self, stamp: &Stamp, window: Range<u64>) -> Window {
        if !self.lends() {
            return self.copy(stamp, &window, COPY_BYTES_MAX, Pace::Now);
        }
        if !self.is_unchanged(stamp) {
            return Window::Changed;
        }
        if self.residency_assumed {
            return Window::Resident(window);
        }
        match self.residency(stamp.size).map_or(0, |look| look.resident_bytes(window.clone())) {
            0 => Window::Absent,
            bytes => Window::Resident(window.start..window.start + bytes),
        }
    }

    fn load_window(&self, stamp: &Stamp, window: Range<u64>, copy: bool) -> Window {
        // The kernel is not to read ahead on its own.
        let _ = fadvise(self, window.start, AHEAD_BYTES, Advice::WillNeed);
        match self.copy(stamp, &window, READ_BYTES_MAX, Pace::Patient) {
            Window::Copied(_) if self.lends() && !copy => Window::Warmed,
            window => window,
        }
    }

    fn wait_for_window(&self, stamp: &Stamp, window: Range<u64>) -> Window {
        match self.lends() {
            false => self.copy(stamp, &window, COPY_BYTES_MAX, Pace::Patient),
            // `sendfile` may as well do the waiting.
            true if self.is_unchanged(stamp) => Window::Resident(window),
            true => Window::Changed,
        }
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn send_mapped(
        &self,
        stamp: &Stamp,
        socket: BorrowedFd<'_>,
        range: &Range<u64>,
    ) -> Option<io::Result<usize>> {
        let map = (self.sending == Sending::Map).then(|| self.residency(stamp.size))??;
        Some(map.send(socket, range.clone()))
    }

    fn mount(&self) -> Option<u64> {
        // The number that no mount has: one that the kernel did not tell is not to be trusted.
        Some(self.mount.unwrap_or(0))
    }
}

/// What is read at a time: enough to keep a disk busy, little enough for many clients to wait with it in hand.
const READ_BYTES_MAX: u64 = 256 << 10;
/// What a helper brings into the page cache at a time, without waiting for all of it.
const AHEAD_BYTES: Option<NonZeroU64> = NonZeroU64::new(1 << 20);
/// What is copied at a time when nothing has to be waited for: little enough to stay in the processor's own cache until
/// it is sent.
const COPY_BYTES_MAX: u64 = 64 << 10;

/// The same file, opened once more without a walk to it.
fn reopened(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let place = format!("/proc/self/fd/{}", file.as_raw_fd());
    timed(Stage::Open, "openat", || openat(CWD, place, flags, Mode::empty()))
}

/// How much of a window is read at once.
fn length(window: &Range<u64>, bytes_max: u64) -> usize {
    (window.end - window.start).min(bytes_max) as usize
}

/// How a read of a certain length went.
pub(crate) enum Reading<T> {
    Whole(T),
    WouldBlock,
    /// The file ended too early.
    Shrunk,
    Failed,
}

impl<T> Reading<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Whole(what) => Reading::Whole(change(what)),
            Self::WouldBlock => Reading::WouldBlock,
            Self::Shrunk => Reading::Shrunk,
            Self::Failed => Reading::Failed,
        }
    }
}

/// Reads so many bytes into memory of their own, for which there may be a wait as well.
pub(crate) fn read(file: BorrowedFd<'_>, offset: u64, length: usize, pace: Pace) -> Reading<Bytes> {
    let block = match pace.waits() {
        true => Some(HeapBuf::zeroed(length)),
        false if may_be_read_now(file, offset..offset + length as u64) => HeapBuf::try_zeroed(length),
        false => None,
    };
    let Some(mut block) = block else { return Reading::WouldBlock };
    read_exact(file, &mut block, offset, pace).map(|()| Bytes::from_owner(block))
}

/// A read that does not wait for an absent page begins to bring it in all the same, and that waits for room in the disk's
/// queue. So it is tried only on what is there. Whoever may not be told leaves it to those who may wait; where nobody is
/// told, before Linux 6.5, it is tried.
fn may_be_read_now(file: BorrowedFd<'_>, range: Range<u64>) -> bool {
    match cachestat::holds(file, range) {
        Ok(held) => held,
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}

pub(crate) fn read_exact(file: BorrowedFd<'_>, bytes: &mut [u8], offset: u64, pace: Pace) -> Reading<()> {
    let flags = match pace {
        Pace::Now => ReadWriteFlags::NOWAIT,
        Pace::Within | Pace::Patient => ReadWriteFlags::empty(),
    };
    let mut done = 0;
    while done < bytes.len() {
        let slices = &mut [IoSliceMut::new(&mut bytes[done..])];
        match timed(Stage::Read, "preadv2", || preadv2(file, slices, offset + done as u64, flags)) {
            Ok(0) => return Reading::Shrunk,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            // Some filesystems cannot promise not to wait.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if !pace.waits() => return Reading::WouldBlock,
            Err(_) => return Reading::Failed,
        }
    }
    Reading::Whole(())
}

#[cfg(test)]
mod tests;
