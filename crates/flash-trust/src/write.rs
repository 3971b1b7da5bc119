//! Opening a log. The server's user may own its folder, and must not gain the rights of root by it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::folder_entry::{FolderEntry, Links, is_roots};
use crate::refusal::{is_root, refused};

/// Readable for the group, so that a log analyser needs no more.
const MODE: Mode = Mode::from_raw_mode(0o640);
/// How often another user may make and remove the log while it is opened.
const TRIES: usize = 8;

/// Opens a log for appending, and makes it if there is none. A FIFO is opened whether or not anybody reads it.
///
/// # Errors
/// As opening it fails. As root also if another user may have chosen what is opened, or where it is made.
pub fn open_log(path: &Path) -> io::Result<File> {
    if !is_root() {
        let flags = OFlags::CREATE | OFlags::CLOEXEC;
        return Ok(append(|access| rustix::fs::openat(CWD, path, access | flags, MODE))?.into());
    }
    let place = FolderEntry::find(path, Links::OfRoot)?;
    let log = existing_or_new(&place)?;
    check(&place, &log)?;
    Ok(log.into())
}

fn existing_or_new(place: &FolderEntry) -> io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match append(|access| place.open(access, Mode::empty())) {
            Err(Errno::NOENT) if !place.folder.is_roots() => {
                return Err(refused(&place.folder.path, "is another user's, and the file does not exist"));
            }
            Err(Errno::NOENT) => place.check_path()?,
            Err(Errno::LOOP) => return Err(refused(&place.path(), "has become a link")),
            opened => return Ok(opened?),
        }
        match append(|access| place.open(access | OFlags::CREATE | OFlags::EXCL, MODE)) {
            Err(Errno::EXIST) => {}
            opened => return Ok(opened?),
        }
    }
    Err(refused(&place.path(), "comes and goes"))
}

/// Where another user decides what is there, it may be a file that this user wants to be written.
fn check(place: &FolderEntry, log: &OwnedFd) -> io::Result<()> {
    if place.is_open_file || place.is_closed() {
        return Ok(());
    }
    let (stat, deciders) = (rustix::fs::fstat(log)?, place.deciders());
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let why = match (is_file, deciders.is_root()) {
        (true, false) if deciders.is_only(stat.st_uid) => return Ok(()),
        (true, false) => "is not of the user who decides what is there",
        (true, true) if !is_roots(stat.st_uid) => "is another user's",
        (true, true) if place.is_only_name(log)? => return Ok(()),
        (true, true) => "has a second name",
        (false, _) => "is not a file",
    };
    Err(refused(&place.path(), why))
}

/// Opens with this function what may be a FIFO. Nothing here waits for its reader.
fn append(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let log = match open(OFlags::WRONLY | OFlags::APPEND | flags) {
        Ok(log) if FileType::from_raw_mode(rustix::fs::fstat(&log)?.st_mode) != FileType::Fifo => log,
        // fifo(7): opened for both ways, it needs no reader, now or later.
        Ok(_) | Err(Errno::NXIO) => open(OFlags::RDWR | flags)?,
        Err(error) => return Err(error),
    };
    rustix::fs::fcntl_setfl(&log, OFlags::APPEND)?;
    Ok(log)
}
