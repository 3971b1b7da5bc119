//! The mounts below the root: which device a job would wait for, and what may be tried on it without waiting.
//!
//! A loop reads a table without a lock. A thread reads the kernel's list of mounts at the start, and again at each
//! change. That thread makes no call to a filesystem. Each new mount is probed by a thread of its own, which may hang
//! with it. Walks that must not wait begin at the [`MountRoot`] of a probed mount, and the kernel lets none of them
//! cross to another mount (`RESOLVE_NO_XDEV`). So they do not wait, even if the table is out of date.
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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
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

/// The mounts that this thread and its children can see.
const LIST: &str = "/proc/thread-self/mountinfo";

const STACK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Mounts {
    folder: Arc<OwnedFd>,
    table: ArcSwap<Table>,
    known: Mutex<Registry>,
    closer: Arc<OnceLock<Arc<Closer>>>,
    list: Arc<MountList>,
}

/// The kernel's list, which all roots share: a process in a sandbox could not open it again.
#[derive(Debug)]
struct MountList {
    /// The list, until somebody watches it.
    file: Mutex<Option<File>>,
    watch: OnceLock<Watch>,
    /// The mounts of each root. Locked while they are told.
    listeners: Mutex<Vec<Weak<Mounts>>>,
}

impl Mounts {
    /// Reads the mounts as they are now, and probes the root's own. `base` is the real path of the root's folder.
    pub(crate) fn new(folder: Arc<OwnedFd>, base: &Path) -> io::Result<Self> {
        // Without a list nothing is certain, and all jobs go to helpers.
        let mut list = File::open(LIST).ok();
        let lines = list.as_mut().and_then(|list| mountinfo::read(list).ok()).unwrap_or_default();
        let mut known = Registry::new(stat::mount_of(&*folder), base.as_os_str().as_bytes());
        known.update(lines);
        let closer = Arc::default();
        if let Some(own) = known.own_if_local() {
            let mount_root = MountRoot::new(Arc::clone(&folder), Arc::clone(&closer));
            known.entered(own, mount_root, probe::probe(&*folder));
        }
        let list = MountList { file: Mutex::new(list), watch: OnceLock::new(), listeners: Mutex::default() };
        Ok(Self::of(folder, known, closer, Arc::new(list)))
    }

    fn of(
        folder: Arc<OwnedFd>,
        known: Registry,
        closer: Arc<OnceLock<Arc<Closer>>>,
        list: Arc<MountList>,
    ) -> Self {
        let table = ArcSwap::from_pointee(known.table());
        Self { folder, table, known: Mutex::new(known), closer, list }
    }

    /// The mounts of a root that comes after, or lies beside. It hears of changes too. Devices have the same numbers.
    pub(crate) fn successor(&self, folder: Arc<OwnedFd>, base: &Path) -> io::Result<Arc<Self>> {
        let mut listeners = self.list.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.known().successor(stat::mount_of(&*folder), base.as_os_str().as_bytes());
        if let Some(own) = known.own_if_local() {
            let mount_root = MountRoot::new(Arc::clone(&folder), Arc::clone(&self.closer));
            let capabilities = known.own_capabilities().unwrap_or_else(|| probe::probe(&*folder));
            known.entered(own, mount_root, capabilities);
        }
        let lines = known.lines().to_vec();
        let mounts = Arc::new(Self::of(folder, known, Arc::clone(&self.closer), Arc::clone(&self.list)));
        if self.list.watch.get().is_some() {
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.push(Arc::downgrade(&mounts));
            // What is mounted below the new root, nobody has looked at.
            mounts.update(lines);
        }
        Ok(mounts)
    }

    /// From now on threads follow the changes.
    pub(crate) fn watch(self: &Arc<Self>, closer: Option<Arc<Closer>>) -> io::Result<()> {
        if let Some(closer) = closer {
            let _ = self.closer.set(closer);
        }
        // A second watch would do the same. Without a list there is nothing to watch.
        let file = self.list.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(file) = file {
            self.list.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(self));
            let list = Arc::downgrade(&self.list);
            let update = move |lines: Vec<MountInfo>| {
                let Some(list) = list.upgrade() else { return };
                let listeners = list.listeners.lock().unwrap_or_else(PoisonError::into_inner);
                listeners.iter().filter_map(Weak::upgrade).for_each(|mounts| mounts.update(lines.clone()));
            };
            let _ = self.list.watch.set(Watch::start(file, update)?);
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
            // Without a thread, jobs on the mount stay with helpers.
            let _ = builder.spawn(move || mounts.look_at(&line));
        }
        self.table.store(Arc::new(known.table()));
    }

    /// Opens a mount and probes it. May wait for ever.
    fn look_at(&self, line: &MountInfo) {
        let Some(point) = self.known().below_root(line) else { return };
        let Ok(folder) = mount_root::open(&*self.folder, &point, line.id) else { return };
        let capabilities = probe::probe(&folder);
        let mount_root = MountRoot::new(folder.into(), Arc::clone(&self.closer));
        let mut known = self.known();
        known.entered(line.id, mount_root, capabilities);
        self.table.store(Arc::new(known.table()));
    }

    /// Locks the registry. Never called by a loop.
    fn known(&self) -> MutexGuard<'_, Registry> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
