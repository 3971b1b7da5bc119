//! The state of an open file or folder. Look-ups of names are elsewhere.

use std::os::fd::AsFd;
use std::time::SystemTime;

use flash_core::file::Stamp;
use flash_os::file_stat;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

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
    /// The number of the mount that it is on, or of its device.
    pub(crate) mount: Option<u64>,
    /// Its names depend on encryption keys, as far as anybody knows.
    pub(crate) may_be_encrypted: bool,
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

/// Whether what is read now is that of one state, if the stamp is the same afterwards. A time in the future says nothing.
pub(crate) fn is_rested(stamp: &Stamp) -> bool {
    !(0..RESTED_NS).contains(&unix_ns().saturating_sub(stamp.changed_ns))
}

/// Reads the state of an open file or folder. The attributes of a local file are in memory once it is open. A remote
/// filesystem may ask its server.
pub(crate) fn examine(place: impl AsFd) -> Result<FileStat, LookupError> {
    examined(timed(Stage::Walk, file_stat::call(), || file_stat::of(place)))
}

/// The state that the walk to an open file or folder has found. No server is asked again, so the state of a remote file may
/// be a little older.
pub(crate) fn examine_walked(place: impl AsFd) -> Result<FileStat, LookupError> {
    examined(timed(Stage::Walk, file_stat::call(), || file_stat::walked(place)))
}

fn examined(stat: Result<file_stat::FileStat, Errno>) -> Result<FileStat, LookupError> {
    let stat = stat.map_err(LookupError::of)?;
    let public = if stat.kind() == FileType::Directory { Mode::ROTH | Mode::XOTH } else { Mode::ROTH };
    Ok(FileStat {
        is_access_due: stat.accessed_ns <= stat.modified_ns.max(stat.changed_ns)
            || unix_ns().saturating_sub(stat.accessed_ns) >= ACCESS_NOTED_EVERY_NS,
        kind: stat.kind(),
        is_unlinked: stat.links == 0,
        stamp: Stamp {
            device: stat.device,
            inode: stat.inode,
            size: stat.size,
            modified_ns: stat.modified_ns,
            changed_ns: stat.changed_ns,
        },
        owner: stat.owner,
        is_public: Mode::from_raw_mode(stat.mode as rustix::fs::RawMode).contains(public),
        mount: stat.mount,
        may_be_encrypted: stat.may_be_encrypted,
    })
}

/// The time, by the clock of file stamps.
pub(crate) fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
