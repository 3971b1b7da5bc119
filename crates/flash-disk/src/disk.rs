//! The state that all jobs share: the roots, their mounts and name tables, memory, and the threads that close files. It
//! tells which device a job would wait for. How jobs are done is not known here.

use std::any::Any;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use flash_core::cache::memory_budget::Budget;
use flash_core::experiments::Experiments;
use flash_core::file::validators::TagSource;
use flash_core::file::{Content, File, OpenFile};
use flash_core::job::{Find, Job, Load, ReadAhead};
use flash_core::path::SitePath;
use flash_core::site::id::SiteId;
use flash_core::site::root::OpenRoot;
use flash_os::shared_heap::HeapBuf;
use rustix::fs::readlink;

use crate::blocking::Blocking;
use crate::closer::Closer;
use crate::identity::{Opened, open_root};
use crate::known_digests::KnownDigests;
use crate::listings::{self, Listings};
use crate::mounts::Device;
use crate::names::folder_reader::FolderReader;
use crate::readers::Readers;
use crate::settings::{Settings, SiteSettings};
use crate::site_root::{RootChange, RootOpener, SiteRoot};
use crate::sites::{NextSites, RootObserver, Sites};
use crate::spool::Spool;
use crate::times::Times;
use crate::users::user_of;

#[derive(Debug)]
pub struct Disk {
    pub(crate) sites: Arc<Sites>,
    pub(crate) settings: Settings,
    pub(crate) copies: Arc<Budget>,
    pub(crate) listings: Arc<Listings>,
    /// Which times tell versions of files apart.
    pub(crate) times: Arc<Times>,
    /// The digests of states of files.
    pub(crate) digests: Arc<KnownDigests>,
    /// A step of a listing takes at most this time, plus its last call.
    pub(crate) list_step: Duration,
    /// Whether the threads that send files may wait for the disk.
    pub(crate) senders_wait: bool,
    /// Learns the [names](crate::names) of folders for threads that must not wait.
    pub(crate) folder_reader: Option<FolderReader>,
    /// Those that read files in order.
    pub(crate) readers: Arc<Readers>,
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
        let (site, briefly) = (Arc::new(settings.site.clone()), settings.names_briefly);
        let sites = Sites::new(folder, opened, site, briefly)?;
        let copies = Budget::new(settings.copies_bytes_max);
        let ahead_bytes_max = settings.ahead_bytes_max;
        let listings = Arc::new(Listings::new(settings.revalidate_ms, settings.listings_bytes_max));
        Ok(Self {
            sites: Arc::new(sites),
            settings,
            copies,
            listings,
            times: Arc::default(),
            digests: Arc::default(),
            list_step: listings::STEP,
            readers: Arc::new(Readers::new(ahead_bytes_max)),
            senders_wait: true,
            folder_reader: None,
            closer: None,
            remote_closer: None,
            spool: None,
        })
    }

    /// Prepares other sites in the place of the present ones, without a change to these. Each has its absolute folder. A site keeps its
    /// number, its roots and its generation if it has the same folder and the same settings as before. `opener` gives what opens the
    /// folder of each, by its place in the list. Opens the first, and may wait for the disk.
    ///
    /// # Errors
    /// The folder of the first site cannot be opened.
    pub fn prepare_sites(
        &self,
        wanted: Vec<(Arc<Path>, Arc<SiteSettings>)>,
        opener: impl Fn(usize) -> Arc<dyn RootOpener>,
    ) -> io::Result<NextSites> {
        self.sites.prepare(wanted, opener)
    }

    /// From now on these are the sites. Requests that are under way keep theirs.
    pub fn replace_sites(&self, next: NextSites) {
        self.sites.replace(next);
    }

    /// Closes the folders of earlier sites that no request uses any more. Returns whether others are still in use. May wait for the
    /// disk.
    pub fn forget_unused_sites(&self) -> bool {
        self.sites.forget_unused()
    }

    /// Whether files of a present site may be compressed, or digested by others than the helper that opens them.
    pub fn has_background_work(&self) -> bool {
        let has_work = |settings: &SiteSettings| {
            !settings.compress.is_empty() || settings.etag != TagSource::Off || settings.digests
        };
        self.sites.any(has_work)
    }

    /// Whether the site is one of the present ones.
    pub fn is_present(&self, site: SiteId) -> bool {
        self.sites.is_present(site)
    }

    /// The same sites and listings for another thread of a helper process. Each thread [answers](Self::answer) with the memory that
    /// its request allows.
    #[must_use]
    pub fn for_another_thread(&self) -> Self {
        Self {
            sites: Arc::clone(&self.sites),
            settings: self.settings.clone(),
            copies: Arc::clone(&self.copies),
            listings: Arc::clone(&self.listings),
            times: Arc::clone(&self.times),
            digests: Arc::clone(&self.digests),
            list_step: self.list_step,
            readers: Arc::clone(&self.readers),
            senders_wait: self.senders_wait,
            folder_reader: None,
            closer: None,
            remote_closer: None,
            spool: None,
        }
    }

    /// From now on only other processes look for files, see [`remote`](crate::remote). This process sends what they
    /// have opened.
    pub fn leave_to_others(&mut self) {
        self.first().root.leave_to_others();
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
        if !self.first().root.is_elsewhere() {
            self.folder_reader = Some(FolderReader::start(Arc::clone(&self.sites))?);
        }
        self.closer = Some(Arc::new(Closer::start("closer")?));
        self.remote_closer = Some(Arc::new(Closer::start("remote-closer")?));
        Ok(())
    }

    /// From now on threads follow the list of mounts, and probe those below the root. Without that, only jobs on the
    /// root's own mount can be done at once. Call it after [`Disk::close_elsewhere`]. In a sandbox the threads cannot
    /// probe new mounts, so these are left to helpers.
    pub fn watch_mounts(&mut self) -> io::Result<()> {
        self.sites.first().watch_mounts(self.closer.clone())
    }

    /// The present sites that are open.
    pub fn open_sites(&self) -> Vec<SiteId> {
        self.sites.opened()
    }

    /// The sites that are [to be looked at](Self::look_at_root): those that are open and not idle, and those that could not be opened.
    pub fn watched_sites(&self) -> Vec<SiteId> {
        self.sites.watched_ids()
    }

    /// The folders of sites with which something is wrong, and what.
    pub fn root_faults(&self) -> Vec<(PathBuf, &'static str)> {
        self.sites.faults()
    }

    /// Those sites are idle from now on that no job has asked for since `calls` calls of this, if they `may` and are on a local device.
    /// The next job that asks for one looks at its root first. Until then no cached entry may answer for it.
    pub fn idle_unasked_sites(&self, calls: u32, may: impl Fn(SiteId) -> bool) {
        self.sites.idle_unasked(calls, may);
    }

    /// From now on `observe` is told of each change of a root, with the site's folder as it was given.
    pub fn observe_roots(&self, observe: impl Fn(SiteId, &RootChange, &Path) + Send + Sync + 'static) {
        self.sites.observe_roots(RootObserver(Box::new(observe)));
    }

    /// Major and minor number of the device that the root of an open site is on.
    pub fn root_device(&self, site: SiteId) -> Option<(u32, u32)> {
        Some(self.sites.get(site)?.device())
    }

    /// The root that the first site is served from.
    pub fn root(&self) -> Arc<SiteRoot> {
        self.sites.first().current_owned()
    }

    fn first(&self) -> Guard<Arc<SiteRoot>> {
        self.sites.first().current()
    }

    /// The root that a job works in: a listing's stays the one that it began with.
    pub fn root_of(&self, job: &Job) -> Arc<SiteRoot> {
        match job {
            Job::Folder(folder) => self.root_in(folder.root.as_ref()),
            // A request keeps the settings of its site through a reload.
            Job::Find(Find { site, .. }) | Job::Load(Load { site: Some(site), .. }) => {
                self.sites.get(*site).map_or_else(|| self.root(), |site| site.current_owned())
            }
            Job::Load(_) | Job::ReadAhead(_) | Job::List(_) | Job::Spool(_) => self.root(),
        }
    }

    /// The root that a listing has passed on, or the first site's.
    pub(crate) fn root_in(&self, passed: Option<&Arc<dyn OpenRoot>>) -> Arc<SiteRoot> {
        let passed = passed.map(|root| Arc::clone(root) as Arc<dyn Any + Send + Sync>);
        passed.and_then(|root| root.downcast().ok()).unwrap_or_else(|| self.root())
    }

    /// Looks where the folder of a site leads now, and serves from there. The observer is told of a change. May wait for the
    /// disk.
    pub fn look_at_root(&self, site: SiteId) {
        self.sites.look(site);
    }

    /// The device that the job would wait for, by its name. A symbolic link may lead to another. Makes no system
    /// call, and waits for no lock.
    pub fn device_for(&self, job: &Job) -> Device {
        match job {
            Job::Find(find) => self.device_of(find.site, &find.path),
            Job::List(list) => self.device_of(list.site, &list.path),
            Job::Spool(_) => Device::SPOOL,
            Job::Folder(folder) => self.device_of(folder.site, &folder.path),
            Job::Load(Load { file, .. }) | Job::ReadAhead(ReadAhead { file, .. }) => {
                self.device_of_file(file).unwrap_or(Device::ELSEWHERE)
            }
        }
    }

    /// The present root of a site, which is opened if it is not. May wait for the disk. `None` if there is no such folder.
    pub fn site_root(&self, site: SiteId) -> Option<Arc<SiteRoot>> {
        self.sites.open(site, Blocking::Anywhere).ok().map(|site| site.current_owned())
    }

    /// Whether an open file is on a local device, so that its pages in memory can be read without waiting.
    pub fn is_local(&self, file: &dyn OpenFile) -> bool {
        self.device_of_mount(file.mount()).class.is_local()
    }

    pub fn experiments(&self) -> Experiments {
        self.settings.experiments
    }

    /// The memory for all listings.
    pub fn listings_bytes_max(&self) -> u64 {
        self.settings.listings_bytes_max
    }

    /// The device's name in logs: its mount point and its type.
    pub fn device_name(&self, device: Device) -> String {
        match device {
            Device::SPOOL => "the folder for temporary files".into(),
            device => self.first().root.mounts().name_of(device),
        }
    }

    /// The path that a job is about, for logs.
    pub fn path_of(&self, job: &Job) -> Vec<u8> {
        let below = |site: SiteId, path: &SitePath<'_>| {
            let roots = self.sites.get(site);
            let folder = roots.as_ref().map_or(Path::new("/"), |roots| roots.path());
            folder.join(OsStr::from_bytes(self.name_at(site, path))).into_os_string().into_vec()
        };
        match job {
            Job::Find(find) => below(find.site, &find.path),
            Job::List(list) => below(list.site, &list.path),
            Job::Folder(folder) => below(folder.site, &folder.path),
            Job::Spool(_) => b"the folder for temporary files".to_vec(),
            Job::Load(Load { file, .. }) | Job::ReadAhead(ReadAhead { file, .. }) => {
                let open = file.open_file().map(|open| open.as_fd().as_raw_fd()).unwrap_or(-1);
                let path = readlink(format!("/proc/self/fd/{open}"), Vec::new());
                path.map_or_else(|_| b"a file".to_vec(), CString::into_bytes)
            }
        }
    }

    /// Whether a mount uses the device. Makes no system call, and waits for no lock.
    pub fn has_device(&self, device: Device) -> bool {
        [Device::ELSEWHERE, Device::SPOOL].contains(&device) || self.first().root.mounts().has_device(device)
    }

    fn device_of(&self, site: SiteId, path: &SitePath<'_>) -> Device {
        // A site that is not open may be anywhere, and so may the way to an idle one.
        let site = self.sites.get(site).filter(|site| !site.is_idle());
        let Some(site) = site.map(|site| site.current()) else { return Device::ELSEWHERE };
        match site.users.as_ref().zip(user_of(path)) {
            Some((users, (user, name))) => users.device_of(user, name),
            None => site.root.device_of(site.settings.name_of(path)),
        }
    }

    /// The name below its folder that a path leads to.
    pub(crate) fn name_of<'f>(&self, find: &'f Find) -> &'f [u8] {
        self.name_at(find.site, &find.path)
    }

    fn name_at<'p>(&self, site: SiteId, path: &'p SitePath<'_>) -> &'p [u8] {
        self.sites.get(site).map_or(path.relative(), |roots| roots.current().settings.name_of(path))
    }

    pub(crate) fn is_users(&self, site: SiteId, path: &SitePath<'_>) -> bool {
        user_of(path).is_some() && self.sites.get(site).is_some_and(|roots| roots.current().users.is_some())
    }

    /// The device that a file's windows come from. `None` for a file in memory.
    pub(crate) fn device_of_file(&self, file: &File) -> Option<Device> {
        match &file.content {
            Content::Memory(_) => None,
            Content::Open(open) => open.mount().map(|mount| self.device_of_mount(Some(mount))),
        }
    }

    pub(crate) fn device_of_mount(&self, mount: Option<u64>) -> Device {
        self.first().root.mounts().device_of(mount)
    }
}
