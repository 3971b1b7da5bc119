//! The state of an open file or folder, from `statx`. Look-ups of names are elsewhere.

use std::os::fd::AsFd;
use std::time::SystemTime;

use flash_core::file::Stamp;
use rustix::fs::{
    AtFlags, FileType, Mode, StatVfsMountFlags, Statx, StatxAttributes, StatxFlags, fstatvfs, statx,
};

use crate::call_timer::{Stage, timed};
use crate::lookup_error::LookupError;

/// The state of a file or folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStat {
    pub(crate) kind: FileType,
    pub(crate) stamp: Stamp,
    pub(crate) owner: u32,
    /// Everyone may read it, and list it if it is a folder.
    pub(crate) is_public: bool,
    /// The kernel's number of the mount that it is on, since Linux 5.8.
    pub(crate) mount: Option<u64>,
    /// Its names depend on encryption keys.
    pub(crate) is_encrypted: bool,
    /// The time of access is so old that a read sets it, as mounts do by default (relatime).
    pub(crate) is_access_due: bool,
    /// No name leads to it any more: it was deleted, or another file has taken its place.
    pub(crate) is_unlinked: bool,
}

/// A day, less an hour for the kernel's coarse clock.
const ACCESS_NOTED_EVERY_NS: i64 = 23 * 3_600_000_000_000;

/// A file that was written more recently may still change with the same stamp. A write sets the time of change first,
/// and its bytes follow. A second write in the same tick leaves the same time.
pub(crate) const RESTED_NS: i64 = 20_000_000;

/// The kernel's number of the mount that an open file or folder is on.
pub(crate) fn mount_of(place: impl AsFd) -> Option<u64> {
    mount_in(&statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?)
}

fn mount_in(stat: &Statx) -> Option<u64> {
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Whether the file's mount keeps times of access.
pub(crate) fn notes_access(file: impl AsFd) -> bool {
    let never = StatVfsMountFlags::NOATIME | StatVfsMountFlags::RDONLY;
    fstatvfs(file).map_or(true, |mount| !mount.f_flag.intersects(never))
}

/// Reads the state of an open file or folder. The attributes of a local file are in memory once it is open. A remote
/// filesystem may ask its server.
pub(crate) fn examine(place: impl AsFd) -> Result<FileStat, LookupError> {
    examine_with(place, AtFlags::EMPTY_PATH)
}

/// The state that the walk to an open file or folder has found. No server is asked again, so the state of a remote file may
/// be a little older.
pub(crate) fn examine_walked(place: impl AsFd) -> Result<FileStat, LookupError> {
    examine_with(place, AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC)
}

fn examine_with(place: impl AsFd, flags: AtFlags) -> Result<FileStat, LookupError> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let stat = timed(Stage::Walk, "statx", || statx(place, "", flags, wanted)).map_err(LookupError::of)?;
    let nanoseconds = |time: rustix::fs::StatxTimestamp| {
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.into())
    };
    let (accessed_ns, modified_ns) = (nanoseconds(stat.stx_atime), nanoseconds(stat.stx_mtime));
    let changed_ns = nanoseconds(stat.stx_ctime);
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    let public = if kind == FileType::Directory { Mode::ROTH | Mode::XOTH } else { Mode::ROTH };
    Ok(FileStat {
        is_access_due: accessed_ns <= modified_ns.max(changed_ns)
            || unix_ns().saturating_sub(accessed_ns) >= ACCESS_NOTED_EVERY_NS,
        kind,
        is_unlinked: stat.stx_nlink == 0,
        stamp: Stamp {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified_ns,
            changed_ns,
        },
        owner: stat.stx_uid,
        is_public: Mode::from_raw_mode(stat.stx_mode.into()).contains(public),
        mount: mount_in(&stat),
        is_encrypted: stat.stx_attributes.contains(StatxAttributes::ENCRYPTED),
    })
}

/// The time, by the clock of file stamps.
pub(crate) fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
