//! Opening what the operator has named, for reading.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::folder_entry::{FolderEntry, Links};
use crate::found::mode_of;
use crate::refusal::{is_root, refused};

/// Nonblocking: a FIFO that nobody writes to must not stop this process.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Everyone may read.
const READABLE: u32 = 0o004;

/// Opens a file: a certificate, a key, a secret, a password file, a page.
///
/// # Errors
/// As opening it fails, and if it is not a file. As root also if another user has chosen it, and it is neither that user's own nor for
/// everyone to read.
pub fn open(path: &Path) -> io::Result<File> {
    if !is_root() {
        let file = rustix::fs::openat(CWD, path, FLAGS | OFlags::CLOEXEC, Mode::empty())?;
        return regular(&rustix::fs::fstat(&file)?).map(|()| file.into());
    }
    let place = FolderEntry::find(path, Links::OfOneUser)?;
    let (file, stat) = open_at(&place)?;
    check_link(path, &place, &stat)?;
    if place.is_open_file || place.is_closed() {
        return Ok(file.into());
    }
    let deciders = place.deciders();
    match deciders.is_root() {
        true if place.is_only_name(&file)? => Ok(file.into()),
        true => Err(refused(&place.path(), "has a second name")),
        // That user could have root open what has been moved there.
        false if deciders.is_only(stat.st_uid) || mode_of(&stat) & READABLE != 0 => Ok(file.into()),
        false => Err(refused(
            &place.path(),
            "is not of the user who decides what is there, nor for everyone to read",
        )),
    }
}

/// What a configuration is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To do what it says.
    Serve,
    /// To look what it says.
    Look,
}

/// Opens a configuration. It may be a pipe.
///
/// # Errors
/// As opening it fails, and as root as [`open`] does. To serve by it, also if more than one other user decides what it says. Those
/// can write the file, or could have put it there.
pub fn open_configuration(path: &Path, purpose: Purpose) -> io::Result<File> {
    if !is_root() {
        return File::open(path);
    }
    let place = FolderEntry::find(path, Links::OfOneUser)?;
    if place.is_open_file {
        return Ok(place.open(OFlags::RDONLY, Mode::empty())?.into());
    }
    if purpose == Purpose::Look {
        return open(path);
    }
    let (file, stat) = open_at(&place)?;
    check_configuration(path, &place, &stat)?;
    Ok(file.into())
}

/// The user other than root who decides what a configuration says, if there is one. It does not matter who asks: a server that has
/// given up its rights is not told by its own user what it does.
///
/// # Errors
/// If more than one does, and as looking at it fails.
pub fn user_of_configuration(path: &Path) -> io::Result<Option<u32>> {
    let place = FolderEntry::walk(path, Links::OfOneUser)?;
    match place.stat()? {
        _ if place.is_open_file => Ok(None),
        Some(stat) => check_configuration(path, &place, &stat),
        None => Err(Errno::NOENT.into()),
    }
}

fn check_configuration(path: &Path, place: &FolderEntry, stat: &Stat) -> io::Result<Option<u32>> {
    check_link(path, place, stat)?;
    let mut deciders = place.deciders_with_groups();
    deciders.add(&place.path(), stat.st_uid, mode_of(stat));
    deciders.check_one()
}

/// A user may link to what is that user's.
fn check_link(path: &Path, place: &FolderEntry, stat: &Stat) -> io::Result<()> {
    match place.link_owner {
        Some(owner) if owner != stat.st_uid => {
            Err(refused(path, "is another user's link to what is not that user's"))
        }
        _ => Ok(()),
    }
}

/// Opens a regular file, and nothing else: to open a device may be to do something.
fn open_at(place: &FolderEntry) -> io::Result<(OwnedFd, Stat)> {
    let found = place.look()?;
    if found.kind() == FileType::Symlink {
        return Err(refused(&place.path(), "has become a link"));
    }
    regular(&found.stat)?;
    let file = found.open(&place.folder.descriptor, &place.name, FLAGS)?;
    Ok((file, found.stat))
}

fn regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("it is not a file")),
    }
}
