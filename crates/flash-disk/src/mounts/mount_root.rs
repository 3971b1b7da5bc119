//! The root folder of a mount, held open. Walks that must not wait begin here, and cannot cross to another mount.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use flash_os::file_stat;
use flash_os::walk::{self, Resolve};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::closer::Closer;

#[derive(Debug)]
pub(crate) struct MountRoot {
    /// `None` only while it is dropped.
    folder: Option<Arc<OwnedFd>>,
    /// No other mount root ever has this number. The kernel reuses its own numbers of mounts.
    number: u64,
    /// Closes the folder, because the last close in a detached mount does the work of unmounting.
    closer: Arc<OnceLock<Arc<Closer>>>,
}

impl MountRoot {
    pub(crate) fn new(folder: Arc<OwnedFd>, closer: Arc<OnceLock<Arc<Closer>>>) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
        Self { folder: Some(folder), number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), closer }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl AsFd for MountRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().expect("a mount root is open until it is dropped").as_fd()
    }
}

impl Drop for MountRoot {
    fn drop(&mut self) {
        // A site's own folder has other owners, and the last of them closes it.
        let folder = self.folder.take().and_then(Arc::into_inner);
        if let (Some(folder), Some(closer)) = (folder, self.closer.get()) {
            closer.close(folder);
        }
    }
}

/// Opens the folder at `point` below `root`, if it is the root of the given mount. May wait for it.
pub(crate) fn open(root: impl AsFd, point: &[u8], mount: u64) -> Result<OwnedFd, Errno> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS;
    let folder = walk::open(root.as_fd(), point, walk::SEARCH | OFlags::DIRECTORY, resolve)?;
    if file_stat::mount_of(&folder) == Some(mount) { Ok(folder) } else { Err(Errno::NOENT) }
}
