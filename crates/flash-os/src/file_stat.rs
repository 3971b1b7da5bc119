//! The state of a file or folder.
//!
//! Where the system does not tell the number of a mount, a device stands for all of its mounts.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{Dev, FileType};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::system_calls::{Call, has};
use crate::{posix, system};

/// What a system tells of a file or folder.
#[derive(Clone, Copy, Debug)]
pub struct FileStat {
    /// Its type, and who may do what with it.
    pub mode: u32,
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    pub owner: u32,
    pub accessed_ns: i64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    /// The number of the mount that it is on, or [`mount_of_device`].
    pub mount: Option<u64>,
    /// Its names depend on encryption keys, as far as anybody knows.
    pub may_be_encrypted: bool,
}

impl FileStat {
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode as rustix::fs::RawMode)
    }
}

/// The state of an open file or folder. A remote filesystem may ask its server.
///
/// # Errors
/// Those of fstat(2).
pub fn of(place: impl AsFd) -> Result<FileStat, Errno> {
    if has(Call::Statx) { system::file_stat::of(place) } else { posix::file_stat::of(place) }
}

/// The state that the walk to an open file or folder has found: no server is asked again, if that can be had.
///
/// # Errors
/// Those of fstat(2).
pub fn walked(place: impl AsFd) -> Result<FileStat, Errno> {
    if has(Call::Statx) { system::file_stat::walked(place) } else { posix::file_stat::of(place) }
}

/// The state of what a path leads to from a folder, and whether a link at its end is followed.
///
/// # Errors
/// Those of fstatat(2).
pub fn at(folder: impl AsFd, path: impl Arg, follows: bool) -> Result<FileStat, Errno> {
    match has(Call::Statx) {
        true => system::file_stat::at(folder, path, follows),
        false => posix::file_stat::at(folder, path, follows),
    }
}

/// The number of the mount that an open file or folder is on, or of its device.
pub fn mount_of(place: impl AsFd) -> Option<u64> {
    mount_now(&place).or_else(|| of(place).ok()?.mount)
}

/// The number of the mount that anything open is on. It is told without a call to the filesystem, or not at all.
pub fn mount_now(place: impl AsFd) -> Option<u64> {
    if has(Call::Statx) {
        return system::file_stat::walked(place).ok()?.mount;
    }
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", place.as_fd().as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

/// Stands for the mounts of this device. It is no number of a mount.
pub fn mount_of_device(device: u64) -> u64 {
    1 << 63 | device
}

/// Whether mounts are known by their devices.
pub fn is_mount_a_device() -> bool {
    !has(Call::Statx)
}

/// The call that is made, for records of calls that were slow.
pub fn call() -> &'static str {
    if has(Call::Statx) { "statx" } else { "fstat" }
}

/// Whether the file's mount keeps times of access.
pub fn notes_access(file: impl AsFd) -> bool {
    rustix::fs::fstatvfs(file).map_or(true, |mount| !mount.f_flag.intersects(system::file_stat::KEEPS_NONE))
}

pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// The device of a major and a minor number.
pub fn device_of(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor) as u64
}

/// Major and minor number of a device.
pub fn parts_of(device: u64) -> (u32, u32) {
    (rustix::fs::major(device as Dev), rustix::fs::minor(device as Dev))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn both_calls_say_the_same() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "123").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let file = File::open(&path).unwrap();
        let said = |stat: FileStat| {
            let FileStat { mode, device, inode, size, links, owner, .. } = stat;
            let FileStat { accessed_ns, modified_ns, changed_ns, .. } = stat;
            (mode, device, inode, size, links, owner, accessed_ns, modified_ns, changed_ns)
        };
        let (ours, theirs) = (posix::file_stat::of(&file).unwrap(), system::file_stat::of(&file).unwrap());
        assert_eq!(said(ours), said(theirs));
        assert_eq!(said(ours), said(system::file_stat::walked(&file).unwrap()));
        assert_eq!(ours.mount, Some(mount_of_device(ours.device)));
        assert!(ours.size == 3 && ours.kind() == FileType::RegularFile);
        let link = folder.path().join("link");
        for follows in [false, true] {
            let ours = posix::file_stat::at(CWD, &link, follows).unwrap();
            assert_eq!(said(ours), said(system::file_stat::at(CWD, &link, follows).unwrap()));
            assert_eq!(ours.kind() == FileType::Symlink, !follows);
        }
        assert_eq!(posix::file_stat::at(CWD, "/missing", true).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn a_mount_is_told_without_a_call_to_its_filesystem() {
        let file = File::open("/proc/self/status").unwrap();
        let known = system::file_stat::of(&file).unwrap().mount;
        let info = || mount_now(&file);
        assert!(known.is_some() && info() == known && mount_of(&file) == known);
    }
}
