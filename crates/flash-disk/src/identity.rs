//! Opening a folder, and which one it is, whatever paths lead to it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, readlink, statx};
use rustix::io::Errno;

/// A folder that was opened, and its real path.
pub type Opened = (OwnedFd, PathBuf);

/// Opens a folder without the right to read it, and says where it really is.
pub fn open_root(path: &Path) -> io::Result<Opened> {
    let folder = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let real_path = real_path(&folder)?;
    Ok((folder, real_path))
}

/// Where an open folder is. Its path may have led elsewhere since it was opened.
pub fn real_path(folder: impl AsFd) -> io::Result<PathBuf> {
    let link = readlink(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()), Vec::new())?;
    Ok(std::ffi::OsString::from_vec(link.into_bytes()).into())
}

/// Two folders that are open at the same time never have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    mount: Option<u64>,
    device: (u32, u32),
    inode: u64,
}

impl Identity {
    pub(crate) fn of_opened((folder, _): &Opened) -> Result<Self, Errno> {
        Self::of(folder, Path::new(""), AtFlags::EMPTY_PATH)
    }

    /// Major and minor number of its device.
    pub(crate) const fn device(self) -> (u32, u32) {
        self.device
    }

    /// Of what the path leads to from there.
    pub(crate) fn of(place: impl AsFd, path: &Path, flags: AtFlags) -> Result<Self, Errno> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let stat = statx(place, path, flags, wanted)?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(Self {
            mount: (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id),
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        })
    }
}
