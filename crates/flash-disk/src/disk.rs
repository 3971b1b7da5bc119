//! The state that all jobs share: the roots, their mounts and name tables, memory, and the threads that close files. It
//! tells which device a job would wait for. How jobs are done is not known here.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flash_core::file::{Content, File};
use flash_core::job::Job;
use flash_core::memory_budget::Budget;
use flash_core::path::SitePath;
use flash_core::root::{Generation, OpenRoot};
use flash_os::shared_heap::HeapBuf;

use crate::closer::Closer;
use crate::listings::{self, Listings};
use crate::mounts::Device;
use crate::names::learner::Learner;
use crate::settings::Settings;
use crate::site_root::{Opened, RootChange, SiteRoot, SiteRoots, open_root};
use crate::spool::Spool;
use crate::users::user_of;

#[derive(Debug)]
pub struct Disk {
    pub(crate) roots: Arc<SiteRoots>,
    pub(crate) settings: Settings,
    pub(crate) copies: Arc<Budget>,
    pub(crate) listings: Arc<Listings>,
    /// A step of a listing takes at most this time, plus its last call.
    pub(crate) list_step: Duration,
    /// Whether the threads that send files may wait for the disk.
    pub(crate) senders_wait: bool,
    /// Learns the [names](crate::names) of folders for threads that must not wait.
    pub(crate) learner: Option<Learner>,
    pub(crate) closer: Option<Arc<Closer>>,
    /// Closes files that are not on local devices.
    pub(crate) remote_closer: Option<Arc<Closer>>,
    pub(crate) spool: Option<Spool>,
}

/// Populated memory for loops that read before any helper has. It is enough for the files of a page; the first larger read is
/// a helper's, and its memory stays for later ones.
const FIRST_BYTES: usize = 256 << 10;

impl Disk {
    /// Opens the folder to serve.
    pub fn open(folder: &Path, settings: Settings) -> io::Result<Self> {
        Self::of_root(folder, open_root(folder)?, settings)
    }

    /// Serves a folder that is open already, and that `folder` leads to.
    pub fn of_root(folder: &Path, opened: Opened, settings: Settings) -> io::Result<Self> {
        let roots = Arc::new(SiteRoots::open(folder, opened, settings.clone())?);
        let copies = Budget::new(settings.copies_bytes_max);
        let (keep_ms, bytes_max) = (settings.revalidate_ms, settings.listings_bytes_max);
        let listings = Arc::new(Listings::new(keep_ms, bytes_max, Arc::clone(roots.generation())));
        Ok(Self {
            roots,
            settings,
            copies,
            listings,
            list_step: listings::STEP,
            senders_wait: true,
            learner: None,
            closer: None,
            remote_closer: None,
            spool: None,
        })
    }

    /// From now on only other processes look for files, see [`remote`](crate::remote). This process sends what they
    /// have opened.
    pub fn leave_to_others(&mut self) {
        self.roots.current().root.leave_to_others();
    }

    /// Sets the spool for request bodies that do not fit into memory. Without one they are refused.
    pub fn keep_bodies_in(&mut self, spool: Spool) {
        self.spool = Some(spool);
    }

    /// From now on threads of their own close files, because the last close of a deleted file frees its blocks. For
    /// architectures whose loops must not wait.
    pub fn close_elsewhere(&mut self) -> io::Result<()> {
        self.senders_wait = false;
        // A loop uses populated memory only, and asks the kernel for none.
        drop(HeapBuf::zeroed(FIRST_BYTES));
        if !self.roots.current().root.is_elsewhere() {
            self.learner = Some(Learner::start(Arc::clone(&self.roots))?);
        }
        self.closer = Some(Arc::new(Closer::start("closer")?));
        self.remote_closer = Some(Arc::new(Closer::start("remote-closer")?));
        Ok(())
    }

    /// From now on threads follow the list of mounts, and probe those below the root. Without that, only jobs on the
    /// root's own mount can be done at once. Call it after [`Disk::close_elsewhere`]. In a sandbox the threads cannot
    /// probe new mounts, so these are left to helpers.
    pub fn watch_mounts(&mut self) -> io::Result<()> {
        self.roots.watch_mounts(self.closer.clone())
    }

    /// The generation of the root that is served, for the site.
    pub fn generation(&self) -> Arc<Generation> {
        Arc::clone(self.roots.generation())
    }

    /// DIR as it was given, made absolute.
    pub fn given_folder(&self) -> &Path {
        self.roots.path()
    }

    /// The root that is served.
    pub fn root(&self) -> Arc<SiteRoot> {
        self.roots.current_owned()
    }

    /// The root that a job works in: a listing's stays the one that it began with.
    pub fn root_of(&self, job: &Job) -> Arc<SiteRoot> {
        match job {
            Job::Folder(folder) => self.root_in(folder.root.as_ref()),
            Job::Find(_) | Job::Load(_) | Job::List(_) | Job::Spool(_) => self.root(),
        }
    }

    /// The root that a listing has passed on, or the present one.
    pub(crate) fn root_in(&self, passed: Option<&Arc<dyn OpenRoot>>) -> Arc<SiteRoot> {
        let passed = passed.map(|root| Arc::clone(root) as Arc<dyn Any + Send + Sync>);
        passed.and_then(|root| root.downcast().ok()).unwrap_or_else(|| self.root())
    }

    /// Looks where DIR leads now, and serves from there. `open` opens the new root. May wait for the disk; to be called by
    /// one thread.
    pub fn look_at_root(&self, open: impl FnOnce(&Path) -> io::Result<Opened>) -> Option<RootChange> {
        self.roots.look(open)
    }

    /// The device that the job would wait for, by its name. A symbolic link may lead to another. Makes no system
    /// call, and waits for no lock.
    pub fn device_for(&self, job: &Job) -> Device {
        match job {
            Job::Find(find) => self.device_of(&find.path),
            Job::List(list) => self.device_of(&list.path),
            Job::Spool(_) => Device::SPOOL,
            Job::Folder(folder) => self.device_of(&folder.path),
            Job::Load(load) => self.device_of_file(&load.file).unwrap_or(Device::ELSEWHERE),
        }
    }

    /// The memory for all listings.
    pub fn listings_bytes_max(&self) -> u64 {
        self.settings.listings_bytes_max
    }

    /// The device's name in logs: its mount point and its type.
    pub fn device_name(&self, device: Device) -> String {
        match device {
            Device::SPOOL => "the folder for temporary files".into(),
            device => self.roots.current().root.mounts().table().name_of(device),
        }
    }

    fn device_of(&self, path: &SitePath<'_>) -> Device {
        let site = self.roots.current();
        match site.users.as_ref().zip(user_of(path)) {
            Some((users, (user, name))) => users.device_of(user, name),
            None => site.root.device_of(path.relative()),
        }
    }

    pub(crate) fn is_users(&self, path: &SitePath<'_>) -> bool {
        self.settings.user_dirs.is_some() && user_of(path).is_some()
    }

    /// The device that a file's windows come from. `None` for a file in memory.
    pub(crate) fn device_of_file(&self, file: &File) -> Option<Device> {
        match &file.content {
            Content::Memory(_) => None,
            Content::Open(open) => open.mount().map(|mount| self.device_of_mount(Some(mount))),
        }
    }

    pub(crate) fn device_of_mount(&self, mount: Option<u64>) -> Device {
        self.roots.current().root.mounts().table().device_of(mount)
    }
}
