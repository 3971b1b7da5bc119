//! The only code that may wait for a disk: it does the jobs that the request path asks for.
//!
//! Each job can be done in three ways. [`Disk::run`] waits where it stands. [`Disk::try_now`] does it only if no
//! waiting is needed. [`Disk::help`] waits on behalf of somebody who must not. Who calls which is `flash-arch`'s
//! business.

#![forbid(unsafe_code)]

mod call_timer;
mod closer;
mod find;
mod list;
mod mounts;
mod names;
mod open_file;
pub mod remote;
mod root;
mod scripts;
mod snapshot;
mod spool;
mod users;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::file::{Content, File, Window};
use flash_core::header::HeaderTemplate;
use flash_core::job::{Done, Failure, Job, List, Outcome, Spent};
use flash_core::memory_budget::Budget;
use flash_core::path::SitePath;
use flash_os::shared_heap::HeapBuf;

pub use crate::call_timer::{LongestCall, longest_call};

use crate::closer::Closer;
use crate::list::Listings;
use crate::names::learner::Learner;
use crate::root::{LookupError, Root};
use crate::users::Users;

pub use crate::mounts::{Capabilities, Device, DeviceClass, NameRule};
pub use crate::spool::Spool;

/// What is served of the folder, and how names lead to it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names tried in a folder, in order.
    pub index: Vec<Vec<u8>>,
    pub follow_links: FollowLinks,
    /// What the names of programs end in: such a file is never opened.
    pub scripts: Vec<Vec<u8>>,
    /// Folders of programs, by their real paths: no file in them is ever sent, should they lie in the site.
    pub program_folders: Vec<PathBuf>,
    /// Look for `.br`, `.zst` and `.gz` beside a file.
    pub precompressed: bool,
    /// Served in place of pages that do not exist, relative to the root.
    pub spa: Option<Vec<u8>>,
    /// The folder in a user's home behind `/~name/`.
    pub user_dirs: Option<Vec<u8>>,
    /// Show names that begin with a dot.
    pub dotfiles: bool,
    /// The largest file that is copied into memory when it is found.
    pub memory_file_bytes_max: u64,
    /// Memory for all copies, those still being sent after the cache let them go among them.
    pub copies_bytes_max: u64,
    /// Memory for listings; one that does not fit is refused.
    pub listings_bytes_max: u64,
    /// How long a listing answers further requests.
    pub revalidate_ms: u64,
    pub send_mode: SendMode,
    /// How long the names of a folder are held in memory where nothing tells that it has changed.
    pub names_briefly: Duration,
    /// Take it for granted that a file's pages are in memory, for experiments: who sends them may have to wait.
    pub residency_assumed: bool,
    pub template: HeaderTemplate,
}

/// How the content of files leaves that are not held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// As a copy of one piece after the other, each checked when it has been taken.
    Copy,
    /// From the page cache itself, by `sendfile`. A file that is changed in place may then reach clients as a mixture,
    /// because what lies in a socket is still the page.
    Sendfile,
    /// The same through a map, as the Flash of 1999 did it; for experiments.
    Mmap,
    /// As copies of a file that is opened anew for each piece, for experiments: nothing is kept from one to the next.
    Reopen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    /// Symbolic links that stay below the root.
    Inside,
    Anywhere,
}

#[derive(Debug)]
pub struct Disk {
    root: Arc<Root>,
    users: Option<Users>,
    settings: Settings,
    copies: Arc<Budget>,
    listings: Arc<Listings>,
    /// How long a step of a listing takes at most, but for its last call.
    list_step: Duration,
    /// Whether whoever sends a file may wait for it.
    senders_wait: bool,
    /// Where threads look for names that must not wait: they are spared much by [`names`].
    learner: Option<Learner>,
    closer: Option<Arc<Closer>>,
    /// For files that are not on local devices.
    remote_closer: Option<Arc<Closer>>,
    spool: Option<Spool>,
}

/// Memory for what loops read before helpers have read anything.
const FIRST_BYTES: usize = 1 << 20;

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocking {
    /// Only what the dentry and page caches hold.
    Never,
    /// For as long as it takes, but for no other device than the one that the name is on.
    ThisDevice,
    Anywhere,
}

impl Blocking {
    fn waits(self) -> bool {
        self != Self::Never
    }
}

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
            list_step: list::STEP,
            senders_wait: true,
            learner: None,
            closer: None,
            remote_closer: None,
            spool: None,
        })
    }

    /// Leaves the folder to other processes. What these have found and opened can be sent from here; looking for more is
    /// always theirs, see [`remote`].
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
        match self.users.as_ref().zip(find::user_of(path)) {
            Some((users, (user, name))) => users.device_of(user, name),
            None => self.root.device_of(path.relative()),
        }
    }

    fn is_users(&self, path: &SitePath<'_>) -> bool {
        self.users.is_some() && find::user_of(path).is_some()
    }

    /// `None` for a file that is in memory, whatever becomes of its device.
    fn device_of_file(&self, file: &File) -> Option<Device> {
        match &file.content {
            Content::Memory(_) => None,
            Content::Open(open) => {
                open.mount().map(|mount| self.root.mounts().table().device_of(Some(mount)))
            }
        }
    }

    /// Does the job, waiting as long as it takes.
    pub fn run(&self, job: &Job) -> Outcome {
        let (done, spent) = call_timer::measured(|| match job {
            Job::Find(find) => again_if(is_busy, || self.find(find, Blocking::Anywhere))
                .unwrap_or_else(|stop| find.failed(stop.failure())),
            Job::Load(load) => load.checked(load.file.wait_for_window(load.window.clone())),
            Job::List(list) => {
                let done =
                    self.list(list, Blocking::Anywhere, &mut |job| self.part(&job, Blocking::Anywhere));
                done.unwrap_or(Done::Failed(Failure::Broken))
            }
            Job::Spool(spool) => self.spool(spool),
            Job::Folder(_) => self.part(job, Blocking::Anywhere).unwrap_or(Done::Failed(Failure::Broken)),
        });
        Outcome { done, spent }
    }

    /// Does the job if that needs no waiting. Asks nothing of a device that is not known to be local.
    pub fn try_now(&self, job: &Job) -> Option<Outcome> {
        let (done, spent) = call_timer::measured(|| self.done_now(job));
        done.map(|done| Outcome { done, spent })
    }

    fn done_now(&self, job: &Job) -> Option<Done> {
        match job {
            Job::Find(find) => match self.find(find, Blocking::Never) {
                Ok(done) => Some(done),
                // A helper can wait until there is room again.
                Err(LookupError::WouldBlock | LookupError::Busy) => {
                    if let Some(learner) = self.learner.as_ref().filter(|_| !self.is_users(&find.path)) {
                        learner.left(find.path.relative());
                    }
                    None
                }
                Err(stop) => Some(find.failed(stop.failure())),
            },
            Job::Load(load)
                if self.device_of_file(&load.file).is_some_and(|device| !device.class.is_local()) =>
            {
                None
            }
            Job::Load(load) => match load.file.window_now(load.window.clone()) {
                Window::Absent => None,
                window if load.is_completed_by(&window) && !load.file.is_one_version_now() => None,
                window => Some(Done::Window(window)),
            },
            Job::List(list) => self.list_now(list),
            // No system call reads a folder without waiting, nor writes a file.
            Job::Folder(_) | Job::Spool(_) => None,
        }
    }

    /// Does the job for somebody who must not wait, so that a second [`Disk::try_now`] finds it done.
    ///
    /// Whoever helps at a local device waits for no other: `None` when the name leads to one.
    pub fn help(&self, job: &Job, device: Device) -> Option<Outcome> {
        let blocking = if device.class.is_local() { Blocking::ThisDevice } else { Blocking::Anywhere };
        if let (Job::Find(_), Some(learner)) = (job, &self.learner) {
            learner.helped();
        }
        let (done, spent) = call_timer::measured(|| match job {
            Job::Find(find) => match again_if(is_busy, || self.find(find, blocking)) {
                Err(LookupError::Elsewhere) => None,
                result => Some(result.unwrap_or_else(|stop| find.failed(stop.failure()))),
            },
            Job::Load(load) => Some(load.checked(load.file.load_window(load.window.clone(), load.copy))),
            Job::List(list) => self.list(list, blocking, &mut |job| self.part(&job, blocking)),
            Job::Folder(_) => self.part(job, blocking),
            Job::Spool(spool) => Some(self.spool(spool)),
        });
        done.map(|done| Outcome { done, spent })
    }

    /// Does a step of a listing with another's hands: `ask` does the parts of it that need the disk.
    pub fn list_with(
        &self,
        list: &List,
        device: Device,
        mut ask: impl FnMut(&Job) -> Option<Outcome>,
    ) -> Option<Outcome> {
        let blocking = if device.class.is_local() { Blocking::ThisDevice } else { Blocking::Anywhere };
        let mut spent = Spent::default();
        let done = self.list(list, blocking, &mut |job| {
            let outcome = ask(&job)?;
            spent += outcome.spent;
            Some(outcome.done)
        });
        done.map(|done| Outcome { done, spent })
    }

    /// A part of a listing; `None` if it would wait for another device.
    fn part(&self, job: &Job, blocking: Blocking) -> Option<Done> {
        let Job::Folder(folder) = job else { return Some(Done::Failed(Failure::Broken)) };
        match again_if(is_busy, || self.folder(folder, blocking)) {
            Err(LookupError::Elsewhere) => None,
            result => Some(result.map_or_else(|stop| Done::Failed(stop.failure()), Done::Folder)),
        }
    }
}

/// Tries several times where no descriptor or memory is left: what caches let go, others close a moment later. For those
/// who may wait.
pub fn again_if<T>(is_busy: impl Fn(&T) -> bool, mut attempt: impl FnMut() -> T) -> T {
    for pause in PAUSES_MS {
        match attempt() {
            result if is_busy(&result) => thread::sleep(Duration::from_millis(pause)),
            result => return result,
        }
    }
    attempt()
}

/// A tenth of a second in all.
const PAUSES_MS: [u64; 5] = [1, 4, 15, 30, 50];

fn is_busy<T>(result: &Result<T, LookupError>) -> bool {
    matches!(result, Err(LookupError::Busy))
}

impl LookupError {
    fn failure(self) -> Failure {
        match self {
            LookupError::Missing | LookupError::Forbidden => Failure::NotFound,
            LookupError::WouldBlock | LookupError::Busy => Failure::Overloaded,
            LookupError::Broken | LookupError::Elsewhere => Failure::Broken,
        }
    }
}

/// Reads a site's own error pages, `404.html` and the like.
pub fn error_pages(folder: &Path) -> io::Result<std::collections::HashMap<u16, Vec<u8>>> {
    let mut pages = std::collections::HashMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let code =
            name.to_str().and_then(|name| name.strip_suffix(".html")).and_then(|code| code.parse().ok());
        let Some(code @ 400..=599) = code else { continue };
        if entry.metadata()?.len() > PAGE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{} is larger than {PAGE_BYTES_MAX} bytes",
                entry.path().display()
            )));
        }
        pages.insert(code, fs::read(entry.path())?);
    }
    Ok(pages)
}

const PAGE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests;
