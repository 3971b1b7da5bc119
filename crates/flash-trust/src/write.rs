//! Opening a log. The server's user may own its folder, and must not gain the rights of root by it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::place::{Links, Place, is_roots};
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
    let place = Place::find(path, Links::OfRoot)?;
    let log = existing_or_new(&place)?;
    check(&place, &log)?;
    Ok(log.into())
}

fn existing_or_new(place: &Place) -> io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match append(|access| place.open(access, Mode::empty())) {
            Err(Errno::NOENT) if !place.folder.is_roots() => {
                return Err(refused(&place.folder.path, "is another user's, and the file does not exist"));
            }
            Err(Errno::NOENT) => {}
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

/// Where others can write, the file may be one that they want to be written.
fn check(place: &Place, log: &OwnedFd) -> io::Result<()> {
    let folder = &place.folder;
    if place.is_open_file || folder.is_closed() {
        return Ok(());
    }
    let stat = rustix::fs::fstat(log)?;
    let is_own = !folder.is_roots() && stat.st_uid == folder.owner;
    let why = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if is_own => return Ok(()),
        FileType::RegularFile if !is_roots(stat.st_uid) => "is another user's",
        FileType::RegularFile if place.is_only_name(log)? => return Ok(()),
        FileType::RegularFile => "has a second name",
        _ => "is not a file",
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
