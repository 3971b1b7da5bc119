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

fn told(stat: &Stat) -> FileStat {
    let device = wide(stat.st_dev);
    FileStat {
        mode: wide(stat.st_mode) as u32,
        device,
        inode: wide(stat.st_ino),
        size: wide(stat.st_size),
        links: wide(stat.st_nlink),
        owner: stat.st_uid,
        accessed_ns: nanoseconds(signed(stat.st_atime), signed(stat.st_atime_nsec)),
        modified_ns: nanoseconds(signed(stat.st_mtime), signed(stat.st_mtime_nsec)),
        changed_ns: nanoseconds(signed(stat.st_ctime), signed(stat.st_ctime_nsec)),
        mount: Some(mount_of_device(device)),
        may_be_encrypted: true,
    }
}

/// A number of any width: systems differ in these.
fn wide(number: impl Into<i128>) -> u64 {
    number.into() as u64
}

fn signed(number: impl Into<i128>) -> i64 {
    number.into() as i64
}
