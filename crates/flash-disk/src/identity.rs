//! Which folder an open one is, whatever paths lead to it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::Errno;

/// A folder that was opened, and its real path.
pub type Opened = (OwnedFd, PathBuf);

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
