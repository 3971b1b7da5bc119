//! Opening a folder, and which one it is, whatever paths lead to it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use flash_os::file_stat::{self, FileStat};
use flash_os::walk;
use rustix::fs::{CWD, FileType, Mode, OFlags, openat, readlink};
use rustix::io::Errno;

/// A folder that was opened, and its real path.
pub type Opened = (OwnedFd, PathBuf);

/// Opens a folder without the right to read it, and says where it really is.
pub fn open_root(path: &Path) -> io::Result<Opened> {
    let folder = openat(CWD, path, walk::SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
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
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of an open folder.
    pub(crate) fn of(folder: impl AsFd) -> Result<Self, Errno> {
        Self::told(file_stat::of(folder)?)
    }

    /// Of the folder that the path leads to.
    pub(crate) fn at(path: &Path) -> Result<Self, Errno> {
        Self::told(file_stat::at(CWD, path, true)?)
    }

    /// Major and minor number of its device.
    pub(crate) fn device(self) -> (u32, u32) {
        file_stat::parts_of(self.device)
    }

    fn told(stat: FileStat) -> Result<Self, Errno> {
        match stat.kind() {
            FileType::Directory => Ok(Self { mount: stat.mount, device: stat.device, inode: stat.inode }),
            _ => Err(Errno::NOTDIR),
        }
    }
}
