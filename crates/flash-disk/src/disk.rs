//! What the jobs on the disk work with: the root, its mounts and name tables, memory, and the threads that close files. It
//! knows which device a job would wait for. How jobs are done is not known here.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flash_core::file::{Content, File};
use flash_core::job::Job;
use flash_core::memory_budget::Budget;
use flash_core::path::SitePath;
use flash_os::shared_heap::HeapBuf;

use crate::closer::Closer;
use crate::listings::{self, Listings};
use crate::mounts::Device;
use crate::names::learner::Learner;
use crate::root::Root;
use crate::settings::Settings;
use crate::spool::Spool;
use crate::users::{Users, user_of};

#[derive(Debug)]
pub struct Disk {
    pub(crate) root: Arc<Root>,
    pub(crate) users: Option<Users>,
    pub(crate) settings: Settings,
    pub(crate) copies: Arc<Budget>,
    pub(crate) listings: Arc<Listings>,
    /// How long a step of a listing takes at most, but for its last call.
    pub(crate) list_step: Duration,
    /// Whether whoever sends a file may wait for it.
    pub(crate) senders_wait: bool,
    /// Where threads look for names that must not wait: they are spared much by [name tables](crate::names).
    pub(crate) learner: Option<Learner>,
    pub(crate) closer: Option<Arc<Closer>>,
    /// For files that are not on local devices.
    pub(crate) remote_closer: Option<Arc<Closer>>,
    pub(crate) spool: Option<Spool>,
}

/// Memory for what loops read before helpers have read anything.
const FIRST_BYTES: usize = 1 << 20;

impl Disk {
    /// Opens the folder to serve.
    pub fn open(folder: &Path, settings: Settings) -> io::Result<Self> {
        let root = Arc::new(Root::site(folder, settings.follow_links, settings.names_briefly)?);
        let users = settings.user_dirs.clone().map(|folder| Users::new(folder, settings.follow_links, &root));
        let copies = Budget::new(settings.copies_bytes_max);
        let listings = Arc::new(Listings::new(settings.revalidate_ms, settings.listings_bytes_max));
        Ok(Self {
            root,
            users,
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

    /// Leaves the folder to other processes. What these have found and opened can be sent from here; looking for more is
    /// always theirs, see [`remote`](crate::remote).
    pub fn leave_to_others(&mut self) {
        self.root.leave_to_others();
    }

    /// Where request bodies are kept that do not fit into memory. Without, there is no room for them.
    pub fn keep_bodies_in(&mut self, spool: Spool) {
        self.spool = Some(spool);
    }

    /// Lets threads of their own close files from now on: the last close of a deleted file frees its blocks, and
    /// that is disk work. For architectures whose runners must not wait.
    pub fn close_elsewhere(&mut self) -> io::Result<()> {
        self.senders_wait = false;
        // A loop takes memory that is there, and gets none from the kernel.
        drop(HeapBuf::zeroed(FIRST_BYTES));
        if !self.root.is_elsewhere() {
            self.learner = Some(Learner::start(Arc::clone(&self.root))?);
        }
        self.closer = Some(Arc::new(Closer::start("closer")?));
        self.remote_closer = Some(Arc::new(Closer::start("remote-closer")?));
        Ok(())
    }

    /// From now on knows mounts that come and go, and looks at those below the root, with threads of its own. Before
    /// that, only what lies on the root's own mount can be done at once. To be called after [`Disk::close_elsewhere`].
    /// In a sandbox it sees mounts come and go, but cannot look at them, so that they stay helpers'.
    pub fn watch_mounts(&mut self) -> io::Result<()> {
        self.root.mounts().watch(self.closer.clone())
    }

    /// The device that the job would wait for, as far as its name tells: a symbolic link may lead to another. Costs no
    /// system call and no lock that another holds.
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

    /// The device in words, for people: where it is mounted, and its type.
    pub fn device_name(&self, device: Device) -> String {
        match device {
            Device::SPOOL => "the folder for temporary files".into(),
            device => self.root.mounts().table().name_of(device),
        }
    }

    fn device_of(&self, path: &SitePath<'_>) -> Device {
        match self.users.as_ref().zip(user_of(path)) {
            Some((users, (user, name))) => users.device_of(user, name),
            None => self.root.device_of(path.relative()),
        }
    }

    pub(crate) fn is_users(&self, path: &SitePath<'_>) -> bool {
        self.users.is_some() && user_of(path).is_some()
    }

    /// `None` for a file that is in memory, whatever becomes of its device.
    pub(crate) fn device_of_file(&self, file: &File) -> Option<Device> {
        match &file.content {
            Content::Memory(_) => None,
            Content::Open(open) => {
                open.mount().map(|mount| self.root.mounts().table().device_of(Some(mount)))
            }
        }
    }
}
