//! An open file on a local disk, and its windows.

use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use flash_core::file::{self, Stamp, Window};
use flash_os::residency::{self, Residency};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::Pace;
use crate::closer::Closer;
use crate::root;

#[derive(Debug)]
pub(crate) struct OpenFile {
    /// `None` only while it is dropped.
    file: Option<OwnedFd>,
    /// Whether the kernel tells this process which of the file's pages are in memory.
    can_tell: bool,
    /// Made at the first look, `None` if that failed.
    residency: OnceLock<Option<Residency>>,
    closer: Option<Arc<Closer>>,
}

impl OpenFile {
    pub(crate) fn new(file: OwnedFd, owner: u32, closer: Option<Arc<Closer>>) -> Self {
        let can_tell = residency::can_tell(owner);
        Self { file: Some(file), can_tell, residency: OnceLock::new(), closer }
    }

    /// Reads the beginning of a window into the page cache. Failures will show when somebody asks for it.
    pub(crate) fn warm(&self, window: Range<u64>) {
        let mut bytes = beginning_of(&window);
        let _ = read_exact(self.as_fd(), &mut bytes, window.start, Pace::Patient);
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
        if !self.is_unchanged(stamp) {
            return Window::Changed;
        }
        if self.can_tell {
            let resident = self.residency(stamp.size).map_or(0, |look| look.resident_bytes(window.clone()));
            return match resident {
                0 => Window::Absent,
                bytes => Window::Resident(window.start..window.start + bytes),
            };
        }
        // Nobody tells an ordinary user what is resident, but a read that refuses to wait cannot lie.
        let mut bytes = beginning_of(&window);
        match read_exact(self.as_fd(), &mut bytes, window.start, Pace::Now) {
            Reading::Whole(()) => Window::Copied(bytes),
            Reading::WouldBlock => Window::Absent,
            Reading::Shrunk => Window::Changed,
            Reading::Failed => Window::Failed,
        }
    }

    fn load_window(&self, stamp: &Stamp, window: Range<u64>, copy: bool) -> Window {
        let mut bytes = beginning_of(&window);
        let reading = read_exact(self.as_fd(), &mut bytes, window.start, Pace::Patient);
        match reading {
            Reading::Whole(()) if !self.is_unchanged(stamp) => Window::Changed,
            Reading::Whole(()) if copy || !self.can_tell => Window::Copied(bytes),
            Reading::Whole(()) => Window::Warmed,
            Reading::Shrunk => Window::Changed,
            Reading::WouldBlock | Reading::Failed => Window::Failed,
        }
    }

    fn is_unchanged(&self, stamp: &Stamp) -> bool {
        let file = self.file.as_ref().expect("an open file is open until it is dropped");
        root::examine(file).is_ok_and(|examined| stamp.same_content(&examined.stamp))
    }
}

/// What is read at a time: enough to keep a disk busy, little enough for many clients to wait with it in hand.
const READ_BYTES_MAX: u64 = 256 << 10;

/// Room for the beginning of a window.
fn beginning_of(window: &Range<u64>) -> Vec<u8> {
    vec![0; (window.end - window.start).min(READ_BYTES_MAX) as usize]
}

/// How a read of a certain length went.
pub(crate) enum Reading<T> {
    Whole(T),
    WouldBlock,
    /// The file ended too early.
    Shrunk,
    Failed,
}

/// Reads a whole file of the given size.
pub(crate) fn read_whole(file: &OwnedFd, size: u64, pace: Pace) -> Reading<Box<[u8]>> {
    let mut bytes = vec![0; size as usize];
    match read_exact(file.as_fd(), &mut bytes, 0, pace) {
        Reading::Whole(()) => Reading::Whole(bytes.into_boxed_slice()),
        Reading::WouldBlock => Reading::WouldBlock,
        Reading::Shrunk => Reading::Shrunk,
        Reading::Failed => Reading::Failed,
    }
}

fn read_exact(file: BorrowedFd<'_>, bytes: &mut [u8], offset: u64, pace: Pace) -> Reading<()> {
    let flags = match pace {
        Pace::Now => ReadWriteFlags::NOWAIT,
        Pace::Patient => ReadWriteFlags::empty(),
    };
    let mut done = 0;
    while done < bytes.len() {
        let slices = &mut [IoSliceMut::new(&mut bytes[done..])];
        match preadv2(file, slices, offset + done as u64, flags) {
            Ok(0) => return Reading::Shrunk,
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            // Some filesystems cannot promise not to wait.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if pace == Pace::Now => return Reading::WouldBlock,
            Err(_) => return Reading::Failed,
        }
    }
    Reading::Whole(())
}

#[cfg(test)]
mod tests;
