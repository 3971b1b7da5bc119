//! Every mount on its own terms: which device a job would wait for, and what may be tried on it without waiting.
//!
//! A loop asks a table that is never locked. The kernel's list of mounts is read at the start and, by a thread that waits
//! for news of it, again whenever it changes. That thread asks no filesystem anything: each new mount is looked at by a
//! thread of its own, which may hang with it. Until that one has answered, and wherever a table is out of date, nobody
//! waits who must not: walks in a hurry begin at the [`MountRoot`] of a mount that is known, and the kernel lets none of them
//! cross to another (`RESOLVE_NO_XDEV`).
//!
//! How many jobs wait for a device, and for how long, is not known here.

mod device_class;
mod mount_root;
mod mountinfo;
mod path;
mod probe;
mod registry;
mod table;
mod watch;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use arc_swap::{ArcSwap, Guard};

use self::mount_root::MountRoot;
use self::mountinfo::MountInfo;
use self::registry::Registry;
use self::watch::Watch;
use crate::closer::Closer;
use crate::stat;

pub use self::device_class::{Capabilities, DeviceClass, NameRule};
pub use self::table::Device;
pub(crate) use self::table::Table;

/// The mounts that this thread, and those it starts, can see.
const LIST: &str = "/proc/thread-self/mountinfo";

const STACK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Mounts {
    folder: OwnedFd,
    table: ArcSwap<Table>,
    known: Mutex<Registry>,
    closer: Arc<OnceLock<Arc<Closer>>>,
    /// The list, until somebody watches it.
    list: Mutex<Option<File>>,
    watch: OnceLock<Watch>,
}

impl Mounts {
    /// Knows the mounts as they are now, and what the root's own can do. `base` is the real path of the root's folder.
    pub(crate) fn new(folder: OwnedFd, base: &Path) -> io::Result<Self> {
        // Without a list nothing is certain, and everything is a helper's.
        let mut list = File::open(LIST).ok();
        let lines = list.as_mut().and_then(|list| mountinfo::read(list).ok()).unwrap_or_default();
        let mut known = Registry::new(stat::mount_of(&folder), base.as_os_str().as_bytes());
        known.update(lines);
        let closer = Arc::default();
        if let Some(own) = known.own_if_local() {
            let mount_root = MountRoot::new(folder.try_clone()?, Arc::clone(&closer));
            known.entered(own, mount_root, probe::probe(&folder));
        }
        let table = ArcSwap::from_pointee(known.table());
        let (known, list) = (Mutex::new(known), Mutex::new(list));
        Ok(Self { folder, table, known, closer, list, watch: OnceLock::new() })
    }

    /// From now on follows the changes, with threads of its own.
    pub(crate) fn watch(self: &Arc<Self>, closer: Option<Arc<Closer>>) -> io::Result<()> {
        if let Some(closer) = closer {
            let _ = self.closer.set(closer);
        }
        // A second watch would only do the same, and without a list there is nothing to see.
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(list) = list {
            let mounts = Arc::downgrade(self);
            let update = move |lines| {
                if let Some(mounts) = mounts.upgrade() {
                    mounts.update(lines);
                }
            };
            let _ = self.watch.set(Watch::start(list, update)?);
        }
        Ok(())
    }

    pub(crate) fn table(&self) -> Guard<Arc<Table>> {
        self.table.load()
    }

    fn update(self: &Arc<Self>, lines: Vec<MountInfo>) {
        let mut known = self.known();
        known.update(lines);
        for line in known.unseen() {
            let mounts = Arc::clone(self);
            let builder = thread::Builder::new().name("mount".into()).stack_size(STACK_BYTES);
            // Without a thread it stays a helper's.
            let _ = builder.spawn(move || mounts.look_at(&line));
        }
        self.table.store(Arc::new(known.table()));
    }

    /// Opens a mount and asks what it can do. It may wait forever.
    fn look_at(&self, line: &MountInfo) {
        let Some(point) = self.known().below_root(line) else { return };
        let Ok(folder) = mount_root::open(&self.folder, &point, line.id) else { return };
        let capabilities = probe::probe(&folder);
        let mount_root = MountRoot::new(folder, Arc::clone(&self.closer));
        let mut known = self.known();
        known.entered(line.id, mount_root, capabilities);
        self.table.store(Arc::new(known.table()));
    }

    /// Never for a loop.
    fn known(&self) -> MutexGuard<'_, Registry> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
