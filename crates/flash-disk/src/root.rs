//! Walking from the root: every look at a name goes through `openat2`, which keeps it below the root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, Statx, StatxFlags};
use rustix::fs::{fstatvfs, openat, openat2, statx};
use rustix::io::Errno;

use flash_core::file::Stamp;

use crate::meter::{Stage, timed};
use crate::mounts::{Device, Mounts, Table};
use crate::{FollowLinks, Pace};

#[derive(Debug)]
pub(crate) struct Root {
    folder: OwnedFd,
    /// Without symbolic links, to compare the targets of absolute ones with.
    real_path: PathBuf,
    follow_links: FollowLinks,
    mounts: Arc<Mounts>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The root that the table of mounts is made for.
    Site,
    /// Anywhere, on this mount.
    Home(Option<u64>),
}

/// Why a look led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nobody may wait here, and an answer needs waiting.
    WouldBlock,
    Missing,
    Forbidden,
    /// Out of descriptors or memory: a matter of time.
    Busy,
    /// Here nobody waits for the device that the name leads to.
    Elsewhere,
    Broken,
}

/// What a name leads to.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) kind: FileType,
    pub(crate) stamp: Stamp,
    pub(crate) owner: u32,
    /// The kernel's number of the mount that it is on, since Linux 5.8.
    pub(crate) mount: Option<u64>,
    /// The time of access is so old that reading sets it, as mounts do by default (relatime).
    is_access_due: bool,
}

/// A day, less an hour for the kernel's coarse clock and a long look.
const ACCESS_NOTED_EVERY_NS: i64 = 23 * 3_600_000_000_000;

impl Root {
    /// The folder to serve.
    pub(crate) fn site(folder: &Path, follow_links: FollowLinks) -> io::Result<Self> {
        let real_path = folder.canonicalize()?;
        let folder = open_root(&real_path)?;
        let mounts = Arc::new(Mounts::new(folder.try_clone()?, &real_path)?);
        Ok(Self { folder, real_path, follow_links, mounts, kind: Kind::Site })
    }

    /// A user's folder.
    pub(crate) fn home(folder: &Path, follow_links: FollowLinks, mounts: Arc<Mounts>) -> io::Result<Self> {
        let real_path = folder.canonicalize()?;
        let folder = open_root(&real_path)?;
        let kind = Kind::Home(mount_of(&folder));
        Ok(Self { folder, real_path, follow_links, mounts, kind })
    }

    pub(crate) fn mounts(&self) -> &Arc<Mounts> {
        &self.mounts
    }

    /// The device that a walk to this name would wait for, symbolic links apart.
    pub(crate) fn device_of(&self, name: &[u8]) -> Device {
        let table = self.mounts.table();
        match self.kind {
            Kind::Site => table.mount_of(name).0.device,
            Kind::Home(mount) => table.device_of(mount),
        }
    }

    /// Looks at a name without opening what it leads to: a FIFO or a device is never touched.
    pub(crate) fn examine(&self, name: &[u8], pace: Pace) -> Result<Examined, Stop> {
        let place = self.open_name(name, OFlags::PATH, pace)?;
        examine(&place)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, name: &[u8], pace: Pace) -> Result<(OwnedFd, Examined), Stop> {
        // Should something else have taken the file's place since it was examined, this does not wait for it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        // To note the time of access is to write, and may wait for the journal. Only a file's owner may leave it out.
        let (file, is_noted) = match self.open_name(name, flags | OFlags::NOATIME, pace) {
            Err(Stop::Forbidden) => (self.open_name(name, flags, pace)?, true),
            file => (file?, false),
        };
        let examined = examine(&file)?;
        if examined.kind != FileType::RegularFile {
            return Err(Stop::Missing);
        }
        if is_noted && !pace.waits() && examined.is_access_due && notes_access(&file) {
            return Err(Stop::WouldBlock);
        }
        Ok((file, examined))
    }

    pub(crate) fn open_folder(&self, name: &[u8], pace: Pace) -> Result<OwnedFd, Stop> {
        self.open_name(name, OFlags::RDONLY | OFlags::DIRECTORY, pace)
    }

    fn open_name(&self, name: &[u8], flags: OFlags, pace: Pace) -> Result<OwnedFd, Stop> {
        match pace {
            Pace::Now => self.walk_now(name, flags).map_err(|error| match error {
                Errno::XDEV => Stop::WouldBlock,
                error => Stop::of(error),
            }),
            Pace::Within => self.walk_within(name, flags),
            Pace::Patient => match self.walk(name, flags) {
                Err(Errno::XDEV) => self.open_by_real_path(name, flags),
                result => result.map_err(Stop::of),
            },
        }
    }

    /// Walks through what the dentry cache holds of a single local mount.
    fn walk_now(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let table = self.mounts.table();
        let (folder, name) = self.way_now(&table, name).ok_or(Errno::AGAIN)?;
        let resolve = self.resolve() | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        loop {
            match open_at(folder, name, flags, resolve) {
                Err(Errno::INTR) => {}
                // Before Linux 5.12 nothing can be asked of the dentry cache alone.
                Err(Errno::INVAL) => return Err(Errno::AGAIN),
                result => return result,
            }
        }
    }

    /// Walks on one local mount, waiting for it.
    fn walk_within(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Stop> {
        let table = self.mounts.table();
        let (folder, name) = self.way_now(&table, name).ok_or(Stop::Elsewhere)?;
        match persist(|| open_at(folder, name, flags, self.resolve() | ResolveFlags::NO_XDEV)) {
            // An absolute link or another mount.
            Err(Errno::XDEV) => Err(Stop::Elsewhere),
            result => result.map_err(Stop::of),
        }
    }

    /// Where a walk that must not leave its mount begins, and the name from there on.
    fn way_now<'a>(&'a self, table: &'a Table, name: &'a [u8]) -> Option<(BorrowedFd<'a>, &'a [u8])> {
        match self.kind {
            Kind::Site => {
                let (mount, name) = table.mount_of(name);
                let door = mount.door.as_ref().filter(|_| mount.device.terms.looks_now())?;
                Some((door.as_fd(), name))
            }
            Kind::Home(mount) => {
                table.device_of(mount).terms.looks_now().then(|| (self.folder.as_fd(), name))
            }
        }
    }

    fn walk(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        persist(|| open_at(self.folder.as_fd(), name, flags, self.resolve()))
    }

    fn resolve(&self) -> ResolveFlags {
        match self.follow_links {
            FollowLinks::Inside => ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH,
            FollowLinks::Anywhere => ResolveFlags::NO_MAGICLINKS,
        }
    }

    /// An absolute symbolic link counts as leading out, wherever it leads. If its target is below the root all the
    /// same, it can be reached by its real path, and that walk is held below the root again.
    fn open_by_real_path(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Stop> {
        let place = self.real_path.join(OsStr::from_bytes(name));
        let real = timed(Stage::Walk, "readlink", || place.canonicalize())
            .map_err(|error| Stop::of(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        let below = real.strip_prefix(&self.real_path).map_err(|_| Stop::Forbidden)?;
        self.walk(below.as_os_str().as_bytes(), flags).map_err(Stop::of)
    }
}

fn persist<T>(walk: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut tries_left = 8;
    loop {
        match walk() {
            // Something was renamed during the walk.
            Err(Errno::AGAIN) if tries_left > 0 => tries_left -= 1,
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn open_root(real_path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, real_path, flags, Mode::empty())?;
    match open_at(folder.as_fd(), b"", OFlags::PATH, ResolveFlags::BENEATH) {
        Err(Errno::NOSYS | Errno::PERM) => {
            Err(io::Error::other("this system does not allow openat2 (Linux 5.6)"))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(folder),
    }
}

fn open_at(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let name = if name.is_empty() { b"." } else { name };
    let stage = if flags.contains(OFlags::PATH) { Stage::Walk } else { Stage::Open };
    timed(stage, "openat2", || openat2(folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve))
}

/// The kernel's number of the mount that an open place is on.
pub(crate) fn mount_of(place: impl AsFd) -> Option<u64> {
    mount_in(&statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?)
}

fn mount_in(stat: &Statx) -> Option<u64> {
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Whether the mount keeps times of access at all.
fn notes_access(file: &OwnedFd) -> bool {
    let never = StatVfsMountFlags::NOATIME | StatVfsMountFlags::RDONLY;
    fstatvfs(file).map_or(true, |mount| !mount.f_flag.intersects(never))
}

/// The state of an open place. Attributes of local files are in memory once the file is open.
pub(crate) fn examine(place: &OwnedFd) -> Result<Examined, Stop> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let stat =
        timed(Stage::Walk, "statx", || statx(place, "", AtFlags::EMPTY_PATH, wanted)).map_err(Stop::of)?;
    let nanoseconds = |time: rustix::fs::StatxTimestamp| {
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.into())
    };
    let (accessed_ns, modified_ns) = (nanoseconds(stat.stx_atime), nanoseconds(stat.stx_mtime));
    let changed_ns = nanoseconds(stat.stx_ctime);
    Ok(Examined {
        is_access_due: accessed_ns <= modified_ns.max(changed_ns)
            || unix_ns().saturating_sub(accessed_ns) >= ACCESS_NOTED_EVERY_NS,
        kind: FileType::from_raw_mode(stat.stx_mode.into()),
        stamp: Stamp {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified_ns,
            changed_ns,
        },
        owner: stat.stx_uid,
        mount: mount_in(&stat),
    })
}

pub(crate) fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Stop {
    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::WouldBlock,
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO => Self::Missing,
            Errno::ACCESS | Errno::PERM | Errno::XDEV => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            _ => Self::Broken,
        }
    }
}
