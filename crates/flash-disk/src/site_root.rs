//! The roots of a site: the folder that DIR leads to now, and those that it led to before.
//!
//! DIR may lead to another folder at any time, because a deploy replaces a symbolic link or makes the folder anew. Each
//! such folder is a root of its own, with its own generation, mounts, name tables and users. A job works in one root from
//! beginning to end. An entry knows the generation that it was found in, and an old one answers no more.
//!
//! Sites on one disk share the list of mounts and the name tables. Each root has a number in them.
//!
//! A thread that may wait [looks](SiteRoots::look) from time to time. Only such a thread drops a root, because to close a folder
//! may be disk work. When it looks, and who opens the new root, is decided elsewhere.

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use flash_core::site::root::{Generation, OpenRoot};
use flash_os::file_stat::notes_access;
use rustix::io::Errno;

use crate::closer::Closer;
use crate::identity::{Identity, Opened, open_root};
use crate::open_roots::OpenRoots;
use crate::root::Root;
use crate::settings::SiteSettings;
use crate::users::Users;

/// A root at which the site was, or is.
#[derive(Debug)]
pub struct SiteRoot {
    generation: u64,
    pub(crate) root: Arc<Root>,
    pub(crate) users: Option<Users>,
    pub(crate) settings: Arc<SiteSettings>,
    /// By their real paths: no file in them is ever sent.
    pub(crate) program_folders: Arc<[PathBuf]>,
    /// DIR leads nowhere: this is the root before, from which nothing more is opened.
    is_gone: bool,
    identity: Identity,
    opener: SharedOpener,
    /// Of its site.
    present: Weak<Generation>,
}

/// Opens the folder of a site, where the process that serves it may.
pub trait RootOpener: Any + fmt::Debug + Send + Sync {
    /// May wait for the disk. `folder` is the site's, as it was given.
    ///
    /// # Errors
    /// As opening it fails.
    fn open(&self, folder: &Path) -> io::Result<Opened>;
}

/// Opens folders in this process.
#[derive(Debug)]
pub struct OpensHere;

/// What opens a site's folder now. A reload may put another opener in its place.
pub(crate) type SharedOpener = Arc<ArcSwap<Arc<dyn RootOpener>>>;

impl RootOpener for OpensHere {
    fn open(&self, folder: &Path) -> io::Result<Opened> {
        open_root(folder)
    }
}

/// What a look at DIR has found.
#[derive(Debug)]
pub enum RootChange {
    /// It leads to another folder.
    Switched(PathBuf),
    Gone,
    Back(PathBuf),
    /// It cannot be looked at, or not be opened. The root stays what it was. Not told again before a look has succeeded.
    Refused(io::Error),
    /// It is there, and cannot be opened. There is no root before.
    Unopened(io::Error),
}

/// What all roots of a site have in common.
#[derive(Debug)]
pub(crate) struct SiteParts {
    /// DIR as it was given, made absolute.
    pub(crate) path: Arc<Path>,
    pub(crate) settings: Arc<SiteSettings>,
    pub(crate) open: Arc<OpenRoots>,
    pub(crate) opener: SharedOpener,
    pub(crate) generation: Arc<Generation>,
}

#[derive(Debug)]
pub(crate) struct SiteRoots {
    site: SiteParts,
    current: ArcSwap<SiteRoot>,
    /// Earlier ones that may still be used.
    retired: Mutex<Vec<Arc<SiteRoot>>>,
    /// Held during a look.
    looks: Mutex<()>,
    /// At the last look DIR was gone.
    is_missed: AtomicBool,
    is_refused: AtomicBool,
    /// How often in a row it was counted that no job has asked for the site, or [`IDLE`].
    unasked: AtomicU32,
}

/// What is wrong with the folder of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootFault {
    Gone,
    /// There is no right to it.
    Denied,
    /// It cannot be opened for another reason.
    Unopened,
    /// It cannot be looked at, and what it was is served.
    Unseen,
}

/// No thread looks at the site until a job asks for it.
const IDLE: u32 = u32::MAX;
/// A folder that is replaced by two renames is back after this time.
const GONE_FOR: Duration = Duration::from_millis(20);

impl SiteParts {
    /// Opens the folder that the site leads to now.
    fn open_folder(&self) -> io::Result<Opened> {
        self.opener.load().open(&self.path)
    }

    /// The next root: a folder that the site leads to.
    fn root(&self, root: Arc<Root>, identity: Identity, program_folders: Arc<[PathBuf]>) -> SiteRoot {
        let settings = Arc::clone(&self.settings);
        let users = settings.user_dirs.clone();
        let users = users.map(|folder| Users::new(folder, settings.follow_links, &root));
        SiteRoot {
            generation: self.open.next_generation(),
            root,
            users,
            settings,
            program_folders,
            is_gone: false,
            identity,
            opener: Arc::clone(&self.opener),
            present: Arc::downgrade(&self.generation),
        }
    }
}

impl SiteRoots {
    /// Opens the first root. Its generation is not yet the site's. Roots of another site share its mounts and name tables with
    /// `beside`.
    pub(crate) fn open(site: SiteParts, opened: Opened, beside: Option<&Root>) -> io::Result<Self> {
        let identity = Identity::of(&opened.0)?;
        let root = site.open.root(opened, identity, site.settings.follow_links, beside)?;
        let first = site.root(root, identity, Arc::clone(&site.settings.program_folders));
        Ok(Self {
            site,
            current: ArcSwap::from_pointee(first),
            retired: Mutex::default(),
            looks: Mutex::default(),
            is_missed: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            unasked: AtomicU32::new(0),
        })
    }

    /// DIR as it was given, made absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.site.path
    }

    /// The root that new jobs work in. Waits for nothing.
    pub(crate) fn current(&self) -> Guard<Arc<SiteRoot>> {
        self.current.load()
    }

    pub(crate) fn current_owned(&self) -> Arc<SiteRoot> {
        self.current.load_full()
    }

    /// Major and minor number of the present root's device.
    pub(crate) fn device(&self) -> (u32, u32) {
        self.current().identity.device()
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.site.generation
    }

    pub(crate) fn watch_mounts(&self, closer: Option<Arc<Closer>>) -> io::Result<()> {
        self.current().root.mounts().watch(closer)
    }

    /// Looks where DIR leads, and opens what is new. May wait for the disk. Does nothing while another thread looks.
    pub(crate) fn look(&self) -> Option<RootChange> {
        let _alone = self.looks.try_lock().ok()?;
        self.look_alone()
    }

    fn look_alone(&self) -> Option<RootChange> {
        self.retired().retain(|root| Arc::strong_count(root) > 1);
        let current = self.current_owned();
        let found = Identity::at(&self.site.path);
        match found {
            Ok(identity) if identity == current.identity && !current.is_gone => {
                self.is_missed.store(false, Ordering::Relaxed);
                self.is_refused.store(false, Ordering::Relaxed);
                None
            }
            Ok(_) => match self.site.open_folder().and_then(|opened| self.successor(&current, opened)) {
                Ok(root) => {
                    let real_path = root.root.real_path().to_owned();
                    self.publish(root);
                    let was_gone = current.is_gone;
                    Some(if was_gone { RootChange::Back(real_path) } else { RootChange::Switched(real_path) })
                }
                Err(error) => self.failed(&current, error),
            },
            Err(error) => self.failed(&current, error.into()),
        }
    }

    /// A job asks for the site. Returns `false` if the site is idle. Then the job has to look first.
    pub(crate) fn ask(&self) -> bool {
        match self.unasked.load(Ordering::Acquire) {
            0 => true,
            _ => {
                let asked = |unasked| (unasked != IDLE).then_some(0);
                self.unasked.fetch_update(Ordering::AcqRel, Ordering::Acquire, asked).is_ok()
            }
        }
    }

    /// Counts that no job has asked for the site since the last call. After so many calls it is idle, if it `may`. Returns whether it is.
    pub(crate) fn count_unasked(&self, calls: u32, may: impl FnOnce() -> bool) -> bool {
        let before = self.unasked.load(Ordering::Relaxed);
        let next = match before.saturating_add(1) {
            unasked if unasked >= calls && may() => IDLE,
            unasked => unasked.min(calls),
        };
        // A job may ask meanwhile.
        let is_counted =
            self.unasked.compare_exchange(before, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        is_counted && next == IDLE
    }

    /// The first look at an idle site. Waits for another thread that looks, because its look may have begun too long ago.
    pub(crate) fn look_after_idling(&self, observe: impl FnOnce(&RootChange)) {
        let _alone = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_idle() {
            return;
        }
        self.is_missed.store(false, Ordering::Relaxed);
        let mut change = self.look_alone();
        if self.is_missed.load(Ordering::Relaxed) {
            thread::sleep(GONE_FOR);
            change = self.look_alone();
        }
        if let Some(change) = &change {
            observe(change);
        }
    }

    /// The site is idle no more.
    pub(crate) fn wake(&self) {
        self.unasked.store(0, Ordering::Release);
    }

    /// What is wrong with the site's folder, as far as the last look has told.
    pub(crate) fn fault(&self) -> Option<RootFault> {
        match self.is_refused.load(Ordering::Relaxed) {
            true => Some(RootFault::Unseen),
            false => self.current().is_gone.then_some(RootFault::Gone),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.unasked.load(Ordering::Acquire) == IDLE
    }

    fn failed(&self, current: &Arc<SiteRoot>, error: io::Error) -> Option<RootChange> {
        if RootFault::of(&error) != Some(RootFault::Gone) {
            let is_new = !self.is_refused.swap(true, Ordering::Relaxed);
            return is_new.then_some(RootChange::Refused(error));
        }
        // A folder that is replaced by two renames is gone for a moment only.
        let was_missed = self.is_missed.swap(true, Ordering::Relaxed);
        if !was_missed || current.is_gone {
            return None;
        }
        let gone = self.site.root(Arc::clone(&current.root), current.identity, Arc::default());
        self.publish(SiteRoot { users: None, is_gone: true, ..gone });
        Some(RootChange::Gone)
    }

    /// The root that comes after.
    fn successor(&self, before: &SiteRoot, opened: Opened) -> io::Result<SiteRoot> {
        let identity = Identity::of(&opened.0)?;
        let real_path = opened.1.clone();
        // A folder of programs that was in the root before is one in this root too.
        let program_folders = before.program_folders.iter().chain(&*self.site.settings.program_folders);
        let moved = |folder: &PathBuf| {
            let below = folder.strip_prefix(before.root.real_path()).ok()?;
            Some(real_path.join(below))
        };
        let mut program_folders: Vec<PathBuf> =
            program_folders.flat_map(|folder| [Some(folder.clone()), moved(folder)]).flatten().collect();
        program_folders.sort();
        program_folders.dedup();
        program_folders.retain(|folder| {
            self.site.settings.program_folders.contains(folder) || folder.starts_with(&real_path)
        });
        let root =
            self.site.open.root(opened, identity, self.site.settings.follow_links, Some(&before.root))?;
        Ok(self.site.root(root, identity, program_folders.into()))
    }

    fn publish(&self, root: SiteRoot) {
        self.is_missed.store(false, Ordering::Relaxed);
        self.is_refused.store(false, Ordering::Relaxed);
        // First: once anything of the new root is sent, nothing of the old one answers. A request that finds the old root in between
        // looks again.
        self.site.generation.set(root.generation);
        let before = self.current.swap(Arc::new(root));
        self.retired().push(before);
    }

    fn retired(&self) -> std::sync::MutexGuard<'_, Vec<Arc<SiteRoot>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteRoot {
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub fn real_path(&self) -> &Path {
        self.root.real_path()
    }

    /// How names lead to its files.
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }

    /// What opens the folder of its site now.
    pub fn opener(&self) -> Arc<dyn RootOpener> {
        Arc::clone(&self.opener.load())
    }

    /// The generation that its site has now. It is gone with the site.
    pub fn present(&self) -> Weak<Generation> {
        Weak::clone(&self.present)
    }

    /// Whether names and content of the root's own mount may be looked at without waiting, as far as they are in memory.
    pub fn looks_now(&self) -> bool {
        let class = self.root.device_of(b"").class;
        class.looks_now() && class.reads_now()
    }

    /// Whether reads set times of access there. Waits only for a remote device.
    pub fn notes_access(&self) -> bool {
        notes_access(self.root.folder())
    }
}

impl OpenRoot for SiteRoot {
    fn generation(&self) -> u64 {
        self.generation
    }
}

impl AsFd for SiteRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.folder()
    }
}

impl RootFault {
    /// Why a folder was not opened. `None` if only this server has no room for it.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Some(Self::Gone),
            Some(Errno::ACCESS | Errno::PERM) => Some(Self::Denied),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => None,
            _ => Some(Self::Unopened),
        }
    }

    /// As it follows the folder's name.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Gone => "is gone",
            Self::Denied => "may not be opened",
            Self::Unopened => "cannot be opened",
            Self::Unseen => "cannot be looked at again",
        }
    }
}

/// A line for the error log, about this DIR.
impl RootChange {
    pub fn about<'a>(&'a self, folder: &'a Path) -> impl fmt::Display + 'a {
        About { change: self, folder }
    }
}

struct About<'a> {
    change: &'a RootChange,
    folder: &'a Path,
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match self.change {
            RootChange::Switched(to) => {
                write!(f, "{folder} is another folder now: serving {}", to.display())
            }
            RootChange::Gone => write!(f, "{folder} is gone: requests get 503 until it is back"),
            RootChange::Back(to) => write!(f, "{folder} is back: serving {}", to.display()),
            RootChange::Refused(error) => {
                write!(f, "cannot look at {folder} again ({error}): what it was is served")
            }
            RootChange::Unopened(error) => {
                write!(f, "cannot open {folder} ({error}): requests get 503 until it can be opened")
            }
        }
    }
}
