//! The folder at which a mount begins, held open: walks that must not wait begin here and are kept from crossing to
//! another mount.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::closer::Closer;
use crate::stat;

#[derive(Debug)]
pub(crate) struct MountRoot {
    /// `None` only while it is dropped.
    folder: Option<OwnedFd>,
    /// No other door ever has this number, while the kernel gives a mount's number to another one later.
    number: u64,
    /// The last one out of a mount that was detached does the work of unmounting it.
    closer: Arc<OnceLock<Arc<Closer>>>,
}

impl MountRoot {
    pub(crate) fn new(folder: OwnedFd, closer: Arc<OnceLock<Arc<Closer>>>) -> Self {
        static DOORS: AtomicU64 = AtomicU64::new(1);
        Self { folder: Some(folder), number: DOORS.fetch_add(1, Ordering::Relaxed), closer }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl AsFd for MountRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().expect("a door is open until it is dropped").as_fd()
    }
}

impl Drop for MountRoot {
    fn drop(&mut self) {
        if let (Some(folder), Some(closer)) = (self.folder.take(), self.closer.get()) {
            closer.close(folder);
        }
    }
}

/// Opens the folder at `point` below `root` if it is the one where the given mount begins. It may wait for that.
pub(crate) fn open(root: impl AsFd, point: &[u8], mount: u64) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let folder = openat2(root, point, flags, Mode::empty(), resolve)?;
    if stat::mount_of(&folder) == Some(mount) { Ok(folder) } else { Err(Errno::NOENT) }
}
