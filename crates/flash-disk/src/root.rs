//! Walks from the root. Each look-up is kept below the root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use flash_core::record::refusal::Refusal;
use flash_os::file_stat::{mount_of, notes_access};
use flash_os::walk::{self, Resolve};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::blocking::Blocking;
use crate::call_timer::{Stage, timed};
use crate::identity::{Identity, Opened};
use crate::lookup_error::LookupError;
use crate::mounts::{Device, Mounts, NameRule, Table};
use crate::names::read::{OpenFolder, Reading};
use crate::names::table::FolderState;
use crate::names::{NameTables, Reader};
use crate::open_at::{READ_FILE, open_again, open_at, open_listed, persist};
use crate::settings::FollowLinks;
use crate::stat::{FileStat, examine, examine_walked};

#[derive(Debug)]
pub(crate) struct Root {
    folder: Arc<OwnedFd>,
    /// Without symbolic links. Targets of absolute links are compared with it.
    real_path: PathBuf,
    follow_links: FollowLinks,
    mounts: Arc<Mounts>,
    names: Arc<NameTables>,
    /// Only other processes look names up.
    is_elsewhere: AtomicBool,
    kind: Kind,
}

/// A name that a walk has reached, and its state. Nothing is open, so a FIFO or a device is never touched.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) place: OwnedFd,
    pub(crate) stat: FileStat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A site's root, which the table of mounts is made for. No other root has this number.
    Site { number: u32 },
    /// A user's folder, on this mount. No other root has this number.
    Home { owner: u32, mount: Option<u64>, number: u32 },
}

/// The number of the next root.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Where a walk that must not leave its mount begins, and the name from there on.
#[derive(Clone, Copy)]
struct WalkStart<'a> {
    from: BorrowedFd<'a>,
    name: &'a [u8],
    /// The number of the mount root.
    mount_root: u64,
}

impl Root {
    /// The folder of a site, beside or after the one `before`. Where nothing tells that a folder has changed, its names are held as
    /// long as `briefly`.
    pub(crate) fn site(
        folder: OwnedFd,
        real_path: PathBuf,
        follow_links: FollowLinks,
        briefly: Duration,
        before: Option<&Self>,
    ) -> io::Result<Self> {
        let is_elsewhere = before.is_some_and(Self::is_elsewhere);
        if !is_elsewhere {
            check_search(&folder)?;
        }
        let folder = Arc::new(folder);
        let mounts = match before {
            Some(before) => before.mounts.successor(Arc::clone(&folder), &real_path),
            None => Mounts::new(Arc::clone(&folder), &real_path),
        };
        let names =
            before.map_or_else(|| Arc::new(NameTables::new(briefly)), |before| Arc::clone(&before.names));
        let kind = Kind::Site { number: NUMBER.fetch_add(1, Ordering::Relaxed) };
        let is_elsewhere = AtomicBool::new(is_elsewhere);
        Ok(Self { folder, real_path, follow_links, mounts, names, is_elsewhere, kind })
    }

    /// A folder of this user.
    pub(crate) fn home(
        (folder, real_path): Opened,
        owner: u32,
        follow_links: FollowLinks,
        mounts: Arc<Mounts>,
        names: Arc<NameTables>,
    ) -> io::Result<Self> {
        check_search(&folder)?;
        let kind =
            Kind::Home { owner, mount: mount_of(&folder), number: NUMBER.fetch_add(1, Ordering::Relaxed) };
        Ok(Self {
            folder: folder.into(),
            real_path,
            follow_links,
            mounts,
            names,
            is_elsewhere: AtomicBool::new(false),
            kind,
        })
    }

    /// Whether it is this folder of that user.
    pub(crate) fn is_home(&self, opened: &Opened, user: u32) -> bool {
        let is_users = matches!(self.kind, Kind::Home { owner, .. } if owner == user);
        is_users && self.real_path == opened.1 && Identity::of(&self.folder) == Identity::of(&opened.0)
    }

    /// From now on this process looks no names up. It only knows the missing names that helpers have told.
    pub(crate) fn leave_to_others(&self) {
        self.is_elsewhere.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }

    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Without symbolic links, as it was when the folder was opened.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real_path
    }

    pub(crate) fn mounts(&self) -> &Arc<Mounts> {
        &self.mounts
    }

    pub(crate) fn names(&self) -> &Arc<NameTables> {
        &self.names
    }

    /// The device that a walk to this name would wait for, symbolic links apart.
    pub(crate) fn device_of(&self, name: &[u8]) -> Device {
        match self.kind {
            Kind::Site { .. } => self.mounts.table().mount_of(name).0.device,
            Kind::Home { mount, .. } => self.mounts.device_of(mount),
        }
    }

    /// Examines a name without opening the file.
    pub(crate) fn examine(&self, name: &[u8], blocking: Blocking) -> Result<FileStat, LookupError> {
        examine(&self.open_name(name, walk::PLACE, blocking)?)
    }

    /// Walks to a name in a folder, or below the root, without opening it.
    pub(crate) fn walk_to(
        &self,
        folder: Option<&OwnedFd>,
        name: &[u8],
        blocking: Blocking,
    ) -> Result<OwnedFd, LookupError> {
        let Some(folder) = folder.filter(|_| blocking.waits() && !self.is_elsewhere()) else {
            return self.open_name(name, walk::PLACE, blocking);
        };
        let resolve = match blocking {
            Blocking::Anywhere => self.resolve(),
            Blocking::Never | Blocking::ThisDevice => self.resolve() | Resolve::NO_XDEV,
        };
        match persist(|| open_at(folder.as_fd(), last(name), walk::PLACE, resolve)) {
            // A link that leads out of the folder may still lead to a place below the root.
            Err(Errno::XDEV) => self.open_name(name, walk::PLACE, blocking),
            result => result.map_err(LookupError::of).and_then(|place| self.admit(place)),
        }
    }

    /// What a walk has reached, if it may be served. Users fill their folders with names of what they may not read themselves:
    /// links, if these may lead anywhere, and hard links. So what a user's folder leads to is the user's own. If no link can have
    /// led out of the folder, it may also be what everyone may read.
    fn admit(&self, place: OwnedFd) -> Result<OwnedFd, LookupError> {
        let Kind::Home { owner, .. } = self.kind else { return Ok(place) };
        let stat = examine_walked(&place)?;
        let is_admitted = stat.owner == owner || stat.is_public && self.follow_links == FollowLinks::Inside;
        if is_admitted { Ok(place) } else { Err(LookupError::Forbidden(Refusal::NotTheUsers)) }
    }

    /// Opens a regular file for reading. A walk has reached it, by this name.
    pub(crate) fn open_file(
        &self,
        walked: &Walked,
        name: &[u8],
        blocking: Blocking,
    ) -> Result<(OwnedFd, FileStat), LookupError> {
        // The kernel's list of open files leads to the file itself, so the device is not asked for its name again. A loop
        // looks in the dentry cache only, which has no such list.
        if blocking.waits() {
            match open_again(&walked.place) {
                // No list is mounted here, or the file has gone.
                Err(Errno::NOENT | Errno::STALE) => {}
                result => {
                    return Ok((result.map_err(LookupError::of)?, walked.stat));
                }
            }
        }
        // Something else may have taken the file's place since it was examined. This does not wait for it.
        let open = |flags| self.open_name(name, READ_FILE | flags, blocking);
        // A read sets the time of access, which may wait for the journal. Only the file's owner may prevent that.
        let (file, is_noted) = match open(walk::NO_ACCESS_TIME) {
            Err(LookupError::Forbidden(_)) => (open(OFlags::empty())?, true),
            file => (file?, false),
        };
        let examined = examine(&file)?;
        if examined.kind != FileType::RegularFile {
            return Err(LookupError::Missing);
        }
        if is_noted && !blocking.waits() && examined.is_access_due && notes_access(&file) {
            return Err(LookupError::WouldBlock);
        }
        Ok((file, examined))
    }

    pub(crate) fn open_folder(&self, name: &[u8], blocking: Blocking) -> Result<OwnedFd, LookupError> {
        self.open_name(name, OFlags::RDONLY | OFlags::DIRECTORY, blocking)
    }

    /// Whether a folder that a walk has reached by this name may be read.
    pub(crate) fn check_folder(
        &self,
        place: &OwnedFd,
        name: &[u8],
        blocking: Blocking,
    ) -> Result<(), LookupError> {
        match blocking.waits() && !self.is_elsewhere() {
            true => persist(|| open_listed(place)).map(drop).map_err(LookupError::of),
            false => self.open_folder(name, blocking).map(drop),
        }
    }

    fn open_name(&self, name: &[u8], flags: OFlags, blocking: Blocking) -> Result<OwnedFd, LookupError> {
        if self.is_elsewhere() {
            let is_missing = self.names.lack(self.number(), name, |_, _| None);
            return Err(if is_missing { LookupError::Missing } else { LookupError::WouldBlock });
        }
        let place = match blocking {
            Blocking::Never => self.walk_now(name, flags).map_err(|error| match error {
                Errno::XDEV => LookupError::WouldBlock,
                error => LookupError::of(error),
            }),
            Blocking::ThisDevice => self.walk_within(name, flags),
            Blocking::Anywhere => match self.walk(name, flags) {
                Err(Errno::XDEV) => self.open_by_real_path(name, flags),
                result => result.map_err(LookupError::of),
            },
        };
        place.and_then(|place| self.admit(place))
    }

    /// Walks through the dentry cache, within one local mount.
    fn walk_now(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let table = self.mounts.table();
        let start = self.walk_start(&table, name).ok_or(Errno::AGAIN)?;
        if self.names.lack(self.number(), name, |folder, state| self.is_unchanged_now(&table, folder, state))
        {
            return Err(Errno::NOENT);
        }
        self.open_cached(start, flags)
    }

    fn open_cached(&self, start: WalkStart<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = self.resolve() | Resolve::CACHED | Resolve::NO_XDEV;
        loop {
            match open_at(start.from, start.name, flags, resolve) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Whether the folder of this name is in that state. `None` if the answer is not in memory.
    fn is_unchanged_now(&self, table: &Table, name: &[u8], state: &FolderState) -> Option<bool> {
        let start = self.walk_start(table, name)?;
        let examined = if start.name.is_empty() {
            examine(start.from)
        } else {
            match self.open_cached(start, walk::SEARCH | OFlags::DIRECTORY) {
                Ok(place) => examine(place),
                Err(Errno::AGAIN) => return None,
                Err(_) => return Some(false),
            }
        };
        Some(examined.is_ok_and(|examined| {
            FolderState { mount_root: start.mount_root, stamp: examined.stamp } == *state
        }))
    }

    /// How many names of the folder a helper process reports, if it finds this name missing.
    pub(crate) fn names_wanted(&self, name: &[u8]) -> u32 {
        self.names.wanted(self.number(), name)
    }

    /// Publishes what a helper process has reported of the folder of this path.
    pub(crate) fn take_names(&self, path: &[u8], reading: Reading) {
        if let Some(folder) = self.names.visit(self.number(), path) {
            self.names.publish(&folder, reading);
        }
    }

    /// For a helper that found this name missing: reads the names of its folder, if that is worth it.
    pub(crate) fn learn_names(&self, name: &[u8], reader: Reader) {
        let Some((path, place)) = self.folder_of_missing(name) else { return };
        let Some(folder) = self.names.visit(self.number(), path) else { return };
        if let Some(names_max) = folder.missed(&place.state(), reader) {
            let hash = |name: &[u8], _| self.names.hash(name);
            self.names.publish(&folder, place.read(names_max, self.names.briefly(), hash));
        }
    }

    /// The folder that lacks this name, or the first missing part of it. `None` if its names cannot be held in
    /// memory. May wait for the name's device, as [`Blocking::ThisDevice`].
    pub(crate) fn folder_of_missing<'n>(&self, name: &'n [u8]) -> Option<(&'n [u8], OpenFolder)> {
        let table = self.mounts.table();
        self.walk_start(&table, name)?;
        let above = |name: &&'n [u8]| (!name.is_empty()).then(|| parent(name));
        let (path, open, mount_root) = std::iter::successors(Some(parent(name)), above).find_map(|path| {
            let start = self.walk_start(&table, path)?;
            let flags = walk::SEARCH | OFlags::DIRECTORY;
            let place = open_at(start.from, start.name, flags, self.resolve() | Resolve::NO_XDEV).ok()?;
            Some((path, place, start.mount_root))
        })?;
        let examined = examine(&open).ok()?;
        let rule = self.mounts.device_of(examined.mount).class.name_rule();
        (rule != NameRule::Ask).then_some((path, OpenFolder { open, examined, mount_root, rule }))
    }

    /// The number by which name tables tell roots apart.
    fn number(&self) -> u32 {
        match self.kind {
            Kind::Site { number } | Kind::Home { number, .. } => number,
        }
    }

    /// Walks within one local mount, and waits for it.
    fn walk_within(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, LookupError> {
        let table = self.mounts.table();
        let start = self.walk_start(&table, name).ok_or(LookupError::Elsewhere)?;
        match persist(|| open_at(start.from, start.name, flags, self.resolve() | Resolve::NO_XDEV)) {
            // An absolute link or another mount.
            Err(Errno::XDEV) => Err(LookupError::Elsewhere),
            result => result.map_err(LookupError::of),
        }
    }

    /// Where a walk that must not leave its mount begins. `None` if no such walk is possible.
    fn walk_start<'a>(&'a self, table: &'a Table, name: &'a [u8]) -> Option<WalkStart<'a>> {
        match self.kind {
            Kind::Site { .. } => {
                let (mount, name) = table.mount_of(name);
                let mount_root = mount.mount_root.as_ref().filter(|_| mount.device.class.looks_now())?;
                Some(WalkStart { from: mount_root.as_fd(), name, mount_root: mount_root.number() })
            }
            Kind::Home { mount, .. } => {
                let looks_now = self.mounts.device_of(mount).class.looks_now();
                looks_now.then(|| WalkStart { from: self.folder.as_fd(), name, mount_root: 0 })
            }
        }
    }

    fn walk(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        persist(|| open_at(self.folder.as_fd(), name, flags, self.resolve()))
    }

    fn resolve(&self) -> Resolve {
        match self.follow_links {
            FollowLinks::Inside => Resolve::NO_MAGICLINKS | Resolve::BENEATH,
            FollowLinks::Anywhere => Resolve::NO_MAGICLINKS,
        }
    }

    /// The walk takes each absolute symbolic link as leading out of the root. If the target is below the root, a
    /// walk by its real path reaches it.
    fn open_by_real_path(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, LookupError> {
        let place = self.real_path.join(OsStr::from_bytes(name));
        let real =
            timed(Stage::Walk, "readlink", || place.canonicalize()).map_err(|error| match self.kind {
                // Users do not learn what is in folders that are closed to them.
                Kind::Home { .. } => LookupError::Forbidden(Refusal::LinkOutside),
                Kind::Site { .. } => LookupError::of(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            })?;
        let below =
            real.strip_prefix(&self.real_path).map_err(|_| LookupError::Forbidden(Refusal::LinkOutside))?;
        self.walk(below.as_os_str().as_bytes(), flags).map_err(LookupError::of)
    }
}

/// The last part of the name.
fn last(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| byte == b'/').next().unwrap_or(name)
}

/// The name without its last part.
pub(crate) fn parent(name: &[u8]) -> &[u8] {
    name.iter().rposition(|&byte| byte == b'/').map_or(b"", |slash| &name[..slash])
}

/// Whether this process may look names up in the folder, which another user may have opened.
fn check_search(folder: &OwnedFd) -> io::Result<()> {
    open_at(folder.as_fd(), b"", walk::SEARCH, Resolve::BENEATH)?;
    Ok(())
}
