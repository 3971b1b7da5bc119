//! An open file on a local disk, and its windows. A window is a copy. If the site's files never change in place, it
//! is a range of the page cache.
//!
//! If copies are sent, a [version] remembers what was handed out. A file that grows or is touched is sent to the end
//! that its head promised. If pages are lent, the file may not change at all.

mod digests;
mod version;

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use flash_core::file::{self, Stamp, Window};
use flash_os::residency::{self, Residency};
use flash_os::system_calls::{Call, has};
use flash_os::{cachestat, file_hints};

use self::version::{Accepted, Version};
use crate::blocking::Blocking;
use crate::closer::Closer;
use crate::open_at::open_again;
use crate::read::{AHEAD_LEFT_BYTES, ReadResult, read, read_exact};
use crate::readers::Readers;
use crate::settings::SendMode;
use crate::stat;

#[derive(Debug)]
pub(crate) struct OpenFile {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    send_mode: SendMode,
    residency_assumed: bool,
    mount: Option<u64>,
    /// Set at the first look; `None` if that failed.
    residency: OnceLock<Option<Residency>>,
    version: Option<Version>,
    /// Its modification time says nothing, so its time of change counts.
    is_exact: bool,
    closer: Option<Arc<Closer>>,
    readers: Arc<Readers>,
}

impl OpenFile {
    pub(crate) fn new(
        file: OwnedFd,
        send_mode: SendMode,
        residency_assumed: bool,
        mount: Option<u64>,
        closer: Option<Arc<Closer>>,
        readers: Arc<Readers>,
    ) -> Self {
        let residency = OnceLock::new();
        Self {
            file: Some(file),
            send_mode,
            residency_assumed,
            mount,
            residency,
            version: None,
            is_exact: false,
            closer,
            readers,
        }
    }

    /// Lets a changed file be sent on, as long as what was handed out has not changed.
    pub(crate) fn watched(mut self, stamp: Stamp) -> Self {
        self.version = (!self.lends()).then(|| Version::new(stamp));
        self
    }

    /// Lets no change pass, also if it left the modification time as it was. A file that has no name any more may be sent to its end.
    pub(crate) fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// Whether pages of the cache are sent.
    fn lends(&self) -> bool {
        matches!(self.send_mode, SendMode::Sendfile | SendMode::Mmap)
    }

    /// Brings the beginning of a window into the page cache, and waits for it.
    pub(crate) fn warm(&self, window: Range<u64>) {
        if let Some(bytes) = NonZeroU64::new(length(&window, READ_BYTES_MAX) as u64) {
            file_hints::read_ahead(self, window.start, bytes);
            self.wait_for(&window);
        }
    }

    /// Waits for the beginning of a window that is on its way. It reads one byte only: a page that is read once more when it is sent
    /// would seem to be a frequent one. A failure shows again when the window is read.
    fn wait_for(&self, window: &Range<u64>) {
        let last = window.start + length(window, READ_BYTES_MAX).saturating_sub(1) as u64;
        let _ = read_exact(self.as_fd(), &mut [0], last);
        residency::note(self, &(window.start..last + 1));
    }

    /// Whether the open file still holds the bytes of `stamp`. It is asked after a copy was taken, because a write
    /// sets the time of change before it brings bytes.
    fn is_unchanged(&self, stamp: &Stamp) -> bool {
        let file = self.file.as_ref().expect("an open file is open until it is dropped");
        stat::examine(file).is_ok_and(|now| {
            let is_exact = !self.is_exact || now.stamp.changed_ns == stamp.changed_ns || now.is_unlinked;
            is_exact && stamp.same_content(&now.stamp)
        })
    }

    /// Reads a piece of the file. The caller looks at the stamp afterwards.
    fn read_piece(&self, range: &Range<u64>, blocking: Blocking) -> ReadResult<Bytes> {
        let anew = match self.send_mode {
            SendMode::Reopen => match open_again(self.as_fd()) {
                Ok(file) => Some(file),
                Err(_) => return ReadResult::Failed,
            },
            _ => None,
        };
        let file = anew.as_ref().map_or(self.as_fd(), AsFd::as_fd);
        read(file, range.start, (range.end - range.start) as usize, blocking)
    }

    fn copy(&self, stamp: &Stamp, window: &Range<u64>, bytes_max: u64, blocking: Blocking) -> Window {
        let Some(version) = &self.version else {
            let piece = window.start..window.end.min(window.start + bytes_max);
            return match self.read_piece(&piece, blocking) {
                ReadResult::Whole(bytes) if self.is_unchanged(stamp) => Window::Copied(bytes),
                ReadResult::Whole(_) | ReadResult::Shrunk => Window::Changed,
                ReadResult::WouldBlock => Window::Absent,
                ReadResult::Failed => Window::Failed,
            };
        };
        let mut piece = window.start..window.end.min(window.start + bytes_max);
        let range = version.digests.range_for(&piece);
        if range.end - range.start > bytes_max {
            // The piece ends where a block ends, so that the next piece begins there.
            piece.end = piece.end.min(version.digests.blocks_of(&piece).start + bytes_max);
        }
        for _ in 0..TRIES_MAX {
            let Some(view) = version.view() else { return Window::Changed };
            let range = version.digests.range_for(&piece);
            let bytes = match self.read_piece(&range, blocking) {
                ReadResult::Whole(bytes) => bytes,
                ReadResult::Shrunk => return Window::Changed,
                ReadResult::WouldBlock => return Window::Absent,
                ReadResult::Failed => return Window::Failed,
            };
            let Ok(examined) = stat::examine(self) else { return Window::Failed };
            if !version.accepts(view, &examined.stamp) {
                if !blocking.waits() {
                    return Window::Absent;
                }
                match version.accept(self.as_fd(), stamp, piece.start) {
                    Accepted::Grown => {}
                    Accepted::Settled => continue,
                    Accepted::No => return Window::Changed,
                }
            }
            if version.record(view, range.start, &bytes) {
                let skipped = (piece.start - range.start) as usize;
                return Window::Copied(bytes.slice(skipped..skipped + length(&piece, bytes_max)));
            }
            if !blocking.waits() {
                return Window::Absent;
            }
        }
        Window::Changed
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
            return self.copy(stamp, &window, READ_BYTES_MAX, Blocking::Never);
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
        if copy || !self.lends() {
            return self.copy(stamp, &window, READ_BYTES_MAX, Blocking::Anywhere);
        }
        if !self.is_unchanged(stamp) {
            return Window::Changed;
        }
        self.wait_for(&window);
        Window::Warmed
    }

    fn wait_for_window(&self, stamp: &Stamp, window: Range<u64>, goes_to: u64) -> Window {
        match self.lends() {
            false => {
                let rest = window.start..goes_to;
                if self.lacks_ahead(stamp, rest.clone()) {
                    self.read_ahead(stamp, rest);
                }
                self.copy(stamp, &window, READ_BYTES_MAX, Blocking::Anywhere)
            }
            // `sendfile` waits for the disk itself.
            true if self.is_unchanged(stamp) => Window::Resident(window),
            true => Window::Changed,
        }
    }

    fn lacks_ahead(&self, stamp: &Stamp, rest: Range<u64>) -> bool {
        let end = stamp.size.min(rest.end);
        // One page tells, because what is read ahead is read in order.
        let last = end.saturating_sub(1).min(rest.start + AHEAD_LEFT_BYTES);
        rest.start < end
            && has(Call::Cachestat)
            && cachestat::holds(self, last..last + 1).is_ok_and(|held| !held)
    }

    fn read_ahead(&self, stamp: &Stamp, rest: Range<u64>) {
        // The file is open for random access, so the kernel does not read ahead by itself.
        let rest = rest.start..rest.end.min(stamp.size);
        if let Some(bytes) = self.readers.ahead((stamp.device, stamp.inode), &rest, Instant::now()) {
            file_hints::read_ahead(self, rest.start, bytes);
        }
    }

    fn is_one_version_now(&self) -> bool {
        self.version.as_ref().is_none_or(|version| !version.is_loose())
    }

    fn is_one_version(&self, stamp: &Stamp, given: &Range<u64>) -> bool {
        self.version.as_ref().is_none_or(|version| version.holds(self.as_fd(), stamp, given))
    }

    fn range_for(&self, window: &Range<u64>) -> Range<u64> {
        match &self.version {
            Some(version) => {
                let blocks = version.digests.blocks_of(window);
                blocks.start..blocks.end.min(blocks.start + READ_BYTES_MAX)
            }
            None => window.clone(),
        }
    }

    fn read_elsewhere(&self, stamp: &Stamp, window: &Range<u64>, bytes: Bytes) -> Option<Window> {
        let Some(version) = &self.version else {
            return (!bytes.is_empty()).then_some(Window::Copied(bytes));
        };
        let range = self.range_for(window);
        if bytes.len() as u64 != range.end - range.start {
            return None;
        }
        // The other process knows only the first stamp.
        let view = version.view().filter(|view| version.is_first(*view, stamp));
        let is_good = view.is_some_and(|view| version.record(view, range.start, &bytes));
        let piece = (window.start - range.start) as usize..(window.end.min(range.end) - range.start) as usize;
        Some(if is_good { Window::Copied(bytes.slice(piece)) } else { Window::Absent })
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn table_bytes(&self) -> u64 {
        self.version.as_ref().map_or(0, |version| version.digests.table_bytes())
    }

    fn send_mapped(
        &self,
        stamp: &Stamp,
        socket: BorrowedFd<'_>,
        range: &Range<u64>,
    ) -> Option<io::Result<usize>> {
        let map = (self.send_mode == SendMode::Mmap).then(|| self.residency(stamp.size))??;
        Some(map.send(socket, range.clone()))
    }

    fn mount(&self) -> Option<u64> {
        // No mount has the number 0, so an unknown mount is not trusted.
        Some(self.mount.unwrap_or(0))
    }
}

/// What is read at a time. It keeps a disk busy, stays in the processor's cache until it is sent, and many clients can hold that
/// much. Each call that sends may wake the client, so smaller pieces take longer.
const READ_BYTES_MAX: u64 = 256 << 10;

/// How often a window is read again if its file changes meanwhile.
const TRIES_MAX: usize = 8;

/// How many bytes of a window are read at once.
fn length(window: &Range<u64>, bytes_max: u64) -> usize {
    (window.end - window.start).min(bytes_max) as usize
}

#[cfg(test)]
mod tests;
