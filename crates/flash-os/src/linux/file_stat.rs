//! `statx`, which tells the number of a mount.

use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, StatVfsMountFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp, makedev, statx,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::file_stat::{FileStat, nanoseconds};

/// Mounts that keep no times of access.
pub(crate) const KEEPS_NONE: StatVfsMountFlags = StatVfsMountFlags::NOATIME.union(StatVfsMountFlags::RDONLY);

pub(crate) fn of(place: impl AsFd) -> Result<FileStat, Errno> {
    look(place, "", AtFlags::EMPTY_PATH)
}

pub(crate) fn walked(place: impl AsFd) -> Result<FileStat, Errno> {
    look(place, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC)
}

pub(crate) fn at(folder: impl AsFd, path: impl Arg, follows: bool) -> Result<FileStat, Errno> {
    let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT };
    look(folder, path, flags)
}

fn look(folder: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<FileStat, Errno> {
    statx(folder, path, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).map(|stat| told(&stat))
}

fn told(stat: &Statx) -> FileStat {
    let time = |time: StatxTimestamp| nanoseconds(time.tv_sec, time.tv_nsec.into());
    FileStat {
        mode: stat.stx_mode.into(),
        device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        size: stat.stx_size,
        links: stat.stx_nlink.into(),
        owner: stat.stx_uid,
        accessed_ns: time(stat.stx_atime),
        modified_ns: time(stat.stx_mtime),
        changed_ns: time(stat.stx_ctime),
        mount: (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id),
        may_be_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
    }
}
