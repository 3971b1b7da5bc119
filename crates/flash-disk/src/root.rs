//! Walking from the root: every look at a name goes through `openat2`, which keeps it below the root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;

use flash_core::file::Stamp;

use crate::meter::{Stage, timed};
use crate::{FollowLinks, Pace};

#[derive(Debug)]
pub(crate) struct Root {
    folder: OwnedFd,
    /// Without symbolic links, to compare the targets of absolute ones with.
    real_path: PathBuf,
    follow_links: FollowLinks,
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
    Broken,
}

/// What a name leads to.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) kind: FileType,
    pub(crate) stamp: Stamp,
    pub(crate) owner: u32,
}

impl Root {
    pub(crate) fn open(folder: &Path, follow_links: FollowLinks) -> io::Result<Self> {
        let real_path = folder.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&real_path, flags, Mode::empty())?;
        let root = Self { folder, real_path, follow_links };
        match root.walk(b"", OFlags::PATH, Pace::Patient) {
            Err(Errno::NOSYS | Errno::PERM) => {
                Err(io::Error::other("this system does not allow openat2 (Linux 5.6)"))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(root),
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
        let file = self.open_name(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, pace)?;
        let examined = examine(&file)?;
        if examined.kind == FileType::RegularFile { Ok((file, examined)) } else { Err(Stop::Missing) }
    }

    pub(crate) fn open_folder(&self, name: &[u8], pace: Pace) -> Result<OwnedFd, Stop> {
        self.open_name(name, OFlags::RDONLY | OFlags::DIRECTORY, pace)
    }

    fn open_name(&self, name: &[u8], flags: OFlags, pace: Pace) -> Result<OwnedFd, Stop> {
        match (self.walk(name, flags, pace), pace) {
            (Ok(file), _) => Ok(file),
            (Err(Errno::XDEV), Pace::Now) => Err(Stop::WouldBlock),
            (Err(Errno::XDEV), Pace::Patient) => self.open_by_real_path(name, flags),
            (Err(error), _) => Err(Stop::of(error)),
        }
    }

    fn walk(&self, name: &[u8], flags: OFlags, pace: Pace) -> Result<OwnedFd, Errno> {
        let name = if name.is_empty() { b"." } else { name };
        let mut resolve = ResolveFlags::NO_MAGICLINKS;
        if self.follow_links == FollowLinks::Inside {
            resolve |= ResolveFlags::BENEATH;
        }
        if pace == Pace::Now {
            resolve |= ResolveFlags::CACHED;
        }
        let stage = if flags.contains(OFlags::PATH) { Stage::Walk } else { Stage::Open };
        let mut tries_left = 8;
        loop {
            let result = timed(stage, "openat2", || {
                openat2(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
            });
            match (result, pace) {
                // Without CACHED this means that something was renamed during the walk.
                (Err(Errno::AGAIN), Pace::Patient) if tries_left > 0 => tries_left -= 1,
                (Err(Errno::INTR), _) => {}
                // Before Linux 5.12 nothing can be asked of the dentry cache alone.
                (Err(Errno::INVAL), Pace::Now) => return Err(Errno::AGAIN),
                (result, _) => return result,
            }
        }
    }

    /// An absolute symbolic link counts as leading out, wherever it leads. If its target is below the root all the
    /// same, it can be reached by its real path, and that walk is held below the root again.
    fn open_by_real_path(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Stop> {
        let place = self.real_path.join(OsStr::from_bytes(name));
        let real = timed(Stage::Walk, "readlink", || place.canonicalize())
            .map_err(|error| Stop::of(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        let below = real.strip_prefix(&self.real_path).map_err(|_| Stop::Forbidden)?;
        self.walk(below.as_os_str().as_bytes(), flags, Pace::Patient).map_err(Stop::of)
    }
}

/// The state of an open place. Attributes of local files are in memory once the file is open.
pub(crate) fn examine(place: &OwnedFd) -> Result<Examined, Stop> {
    let stat = timed(Stage::Walk, "statx", || statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS))
        .map_err(Stop::of)?;
    let nanoseconds = |time: rustix::fs::StatxTimestamp| {
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.into())
    };
    Ok(Examined {
        kind: FileType::from_raw_mode(stat.stx_mode.into()),
        stamp: Stamp {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified_ns: nanoseconds(stat.stx_mtime),
            changed_ns: nanoseconds(stat.stx_ctime),
        },
        owner: stat.stx_uid,
    })
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
