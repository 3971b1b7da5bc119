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
mod namespace;
mod path;
mod probe;
mod registry;
mod table;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use arc_swap::{ArcSwap, Guard};
use flash_os::file_stat;
use flash_os::mounts::{MountInfo, MountList};

use self::mount_root::MountRoot;
use self::namespace::{Devices, Namespace};
use self::registry::Registry;
use self::watch::Watch;
use crate::closer::Closer;

pub use self::device_class::{Capabilities, DeviceClass, NameRule};
pub use self::table::Device;
pub(crate) use self::table::Table;

const STACK_BYTES: usize = 64 << 10;

/// What one root reaches of the mounts.
#[derive(Debug)]
pub(crate) struct Mounts {
    folder: Arc<OwnedFd>,
    table: ArcSwap<Table>,
    /// Locked after the state of the list.
    known: Mutex<Registry>,
    list: Arc<SeenMounts>,
}

/// The kernel's list, which all roots share: a process in a sandbox could not open it again.
#[derive(Debug)]
struct SeenMounts {
    /// The list, until somebody watches it.
    list: Mutex<Option<MountList>>,
    watch: OnceLock<Watch>,
    closer: Arc<OnceLock<Arc<Closer>>>,
    devices: ArcSwap<Devices>,
    /// Never locked by a loop.
    state: Mutex<MountsState>,
}

#[derive(Debug)]
struct MountsState {
    namespace: Namespace,
    /// The mounts of each root.
    roots: Vec<Weak<Mounts>>,
}

/// Whether calls for an open file wait for this machine's disks alone, by a list of mounts that is read now.
pub(crate) fn is_near(file: impl AsFd) -> bool {
    let lines = MountList::open().and_then(|mut list| list.read().ok()).unwrap_or_default();
    let device = Namespace::new(lines).devices().of(file_stat::mount_of(file));
    device.class != DeviceClass::Remote
}

impl Mounts {
    /// Reads the mounts as they are now, and probes the root's own. `base` is the real path of the root's folder.
    pub(crate) fn new(folder: Arc<OwnedFd>, base: &Path) -> Arc<Self> {
        Self::of(SeenMounts::read(), folder, base)
    }

    /// The mounts of a root that comes after, or lies beside.
    pub(crate) fn successor(&self, folder: Arc<OwnedFd>, base: &Path) -> Arc<Self> {
        Self::of(Arc::clone(&self.list), folder, base)
    }

    fn of(list: Arc<SeenMounts>, folder: Arc<OwnedFd>, base: &Path) -> Arc<Self> {
        let mut known = Registry::new(file_stat::mount_of(&*folder), base.as_os_str().as_bytes());
        let own = {
            let namespace = &list.state().namespace;
            known.own_if_local(namespace).map(|own| (own.id, namespace.capabilities(own)))
        };
        // A probe may wait for the disk, so it holds no lock.
        let own =
            own.map(|(own, capabilities)| (own, capabilities.unwrap_or_else(|| probe::probe(&*folder))));
        let mut state = list.state();
        if let Some((own, capabilities)) = own {
            known.entered(own, MountRoot::new(Arc::clone(&folder), Arc::clone(&list.closer)));
            list.entered(&mut state, own, capabilities);
        }
        let reached = known.reached(&state.namespace).numbers();
        if state.namespace.reach(&reached) {
            list.devices.store(Arc::new(state.namespace.devices()));
        }
        let table = ArcSwap::from_pointee(known.table(&state.namespace));
        let mounts = Arc::new(Self { folder, table, known: Mutex::new(known), list: Arc::clone(&list) });
        if state.roots.len() == state.roots.capacity() {
            state.roots.retain(|root| root.strong_count() > 0);
        }
        state.roots.push(Arc::downgrade(&mounts));
        if list.watch.get().is_some() {
            mounts.probe_unseen(&state.namespace, &mut mounts.known());
        }
        drop(state);
        mounts
    }

    /// From now on threads follow the changes.
    pub(crate) fn watch(&self, closer: Option<Arc<Closer>>) -> io::Result<()> {
        if let Some(closer) = closer {
            let _ = self.list.closer.set(closer);
        }
        // A second watch would do the same. Without a list there is nothing to watch.
        let list = self.list.list.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(list) = list {
            let seen = Arc::downgrade(&self.list);
            let update = move |lines| {
                if let Some(seen) = seen.upgrade() {
                    seen.update(lines);
                }
            };
            let _ = self.list.watch.set(Watch::start(list, update)?);
        }
        Ok(())
    }

    pub(crate) fn table(&self) -> Guard<Arc<Table>> {
        self.table.load()
    }

    /// The device of a mount of this machine.
    pub(crate) fn device_of(&self, mount: Option<u64>) -> Device {
        self.list.devices.load().of(mount)
    }

    /// Whether a mount of this machine uses the device.
    pub(crate) fn has_device(&self, device: Device) -> bool {
        self.list.devices.load().has(device)
    }

    /// The device's name in logs.
    pub(crate) fn name_of(&self, device: Device) -> String {
        self.list.devices.load().name_of(device)
    }

    fn probe_unseen(self: &Arc<Self>, namespace: &Namespace, known: &mut Registry) {
        for line in known.unseen(namespace) {
            let mounts = Arc::clone(self);
            let builder = thread::Builder::new().name("mount".into()).stack_size(STACK_BYTES);
            // Without a thread, jobs on the mount stay with helpers.
            let _ = builder.spawn(move || mounts.look_at(&line));
        }
    }

    /// Opens a mount and probes it. May wait for ever.
    fn look_at(&self, line: &MountInfo) {
        let Some(point) = self.known().below_root(line) else { return };
        let Ok(folder) = mount_root::open(&*self.folder, &point, line.id) else { return };
        let capabilities = probe::probe(&folder);
        let mount_root = MountRoot::new(folder.into(), Arc::clone(&self.list.closer));
        let mut state = self.list.state();
        if state.namespace.get(line.id).is_some() {
            self.known().entered(line.id, mount_root);
            self.list.entered(&mut state, line.id, capabilities);
            self.make_table(&state.namespace, &self.known());
        }
    }

    fn make_table(&self, namespace: &Namespace, known: &Registry) {
        self.table.store(Arc::new(known.table(namespace)));
    }

    fn known(&self) -> MutexGuard<'_, Registry> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenMounts {
    fn read() -> Arc<Self> {
        // Without a list nothing is certain, and all jobs go to helpers.
        let mut list = MountList::open();
        let lines = list.as_mut().and_then(|list| list.read().ok()).unwrap_or_default();
        let namespace = Namespace::new(lines);
        Arc::new(Self {
            list: Mutex::new(list),
            watch: OnceLock::new(),
            closer: Arc::default(),
            devices: ArcSwap::from_pointee(namespace.devices()),
            state: Mutex::new(MountsState { namespace, roots: Vec::new() }),
        })
    }

    /// Takes a new list for all roots.
    fn update(&self, lines: Vec<MountInfo>) {
        let MountsState { namespace, roots } = &mut *self.state();
        namespace.update(lines);
        for mounts in roots.iter().filter_map(Weak::upgrade) {
            let mut known = mounts.known();
            known.update(namespace);
            mounts.probe_unseen(namespace, &mut known);
            mounts.make_table(namespace, &known);
            let reached = known.reached(namespace).numbers();
            namespace.reach(&reached);
        }
        self.devices.store(Arc::new(namespace.devices()));
    }

    /// A mount was probed. Its filesystem may be another root's too.
    fn entered(&self, state: &mut MountsState, mount: u64, capabilities: Capabilities) {
        let Some(filesystem) = state.namespace.entered(mount, capabilities) else { return };
        let roots = state.roots.iter().filter_map(Weak::upgrade);
        for mounts in roots.filter(|mounts| mounts.table().has(filesystem)) {
            mounts.make_table(&state.namespace, &mounts.known());
        }
        self.devices.store(Arc::new(state.namespace.devices()));
    }

    fn state(&self) -> MutexGuard<'_, MountsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
