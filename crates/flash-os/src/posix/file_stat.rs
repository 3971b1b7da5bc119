//! `fstat`, which tells a device.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Stat, fstat, statat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::file_stat::{FileStat, mount_of_device, nanoseconds};

pub(crate) fn of(place: impl AsFd) -> Result<FileStat, Errno> {
    fstat(place).map(|stat| told(&stat))
}

pub(crate) fn at(folder: impl AsFd, path: impl Arg, follows: bool) -> Result<FileStat, Errno> {
    let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    statat(folder, path, flags).map(|stat| told(&stat))
}

#[allow(clippy::unnecessary_cast, reason = "systems differ in the widths of these numbers")]
fn told(stat: &Stat) -> FileStat {
    let device = stat.st_dev as u64;
    FileStat {
        mode: stat.st_mode as u32,
        device,
        inode: stat.st_ino as u64,
        size: stat.st_size as u64,
        links: stat.st_nlink as u64,
        owner: stat.st_uid,
        accessed_ns: nanoseconds(stat.st_atime as i64, stat.st_atime_nsec as i64),
        modified_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        mount: Some(mount_of_device(device)),
        may_be_encrypted: true,
    }
}
