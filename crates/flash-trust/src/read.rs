//! Opening what the operator has named, for reading.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::place::{Links, Place};
use crate::refusal::{is_root, refused};

/// Nonblocking: a FIFO that nobody writes to must not stop this process.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a file: a certificate, a key, a secret, a password file, a page.
///
/// # Errors
/// As opening it fails, and if it is not a file. As root also if it is a file that another user has chosen, and that is not that
/// user's own.
pub fn open(path: &Path) -> io::Result<File> {
    if !is_root() {
        let file = rustix::fs::openat(CWD, path, FLAGS | OFlags::CLOEXEC, Mode::empty())?;
        return regular(&file).map(|_| file.into());
    }
    let place = Place::find(path, Links::OfOneUser)?;
    let (file, stat) = open_at(&place)?;
    let folder = &place.folder;
    check_link(path, &place, &stat)?;
    let is_own = !folder.is_roots() && stat.st_uid == folder.owner;
    if !(folder.is_closed() || is_own || place.is_only_name(&file)?) {
        return Err(refused(&place.path(), "has a second name"));
    }
    Ok(file.into())
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
    match purpose {
        Purpose::Look if is_root() && !Place::find(path, Links::OfOneUser)?.is_open_file => open(path),
        Purpose::Look => File::open(path),
        Purpose::Serve => decided_by_one(path).map(|(file, _)| file),
    }
}

/// The user other than root who decides what a configuration says, if there is one.
///
/// # Errors
/// As [`open_configuration`].
pub fn user_of_configuration(path: &Path) -> io::Result<Option<u32>> {
    decided_by_one(path).map(|(_, user)| user)
}

fn decided_by_one(path: &Path) -> io::Result<(File, Option<u32>)> {
    if !is_root() {
        return Ok((File::open(path)?, None));
    }
    let mut place = Place::find(path, Links::OfOneUser)?;
    if place.is_open_file {
        return Ok((place.open(OFlags::RDONLY, Mode::empty())?.into(), None));
    }
    let (file, stat) = open_at(&place)?;
    check_link(path, &place, &stat)?;
    place.folder.note(&mut place.deciders);
    place.deciders.add(&place.path(), stat.st_uid, stat.st_mode);
    place.deciders.check_one()?;
    Ok((file.into(), place.deciders.user))
}

/// A user may link to what is that user's.
fn check_link(path: &Path, place: &Place, stat: &Stat) -> io::Result<()> {
    match place.link_owner {
        Some(owner) if owner != stat.st_uid => {
            Err(refused(path, "is another user's link to what is not that user's"))
        }
        _ => Ok(()),
    }
}

fn open_at(place: &Place) -> io::Result<(OwnedFd, Stat)> {
    let file = match place.open(FLAGS, Mode::empty()) {
        Err(Errno::LOOP) => return Err(refused(&place.path(), "has become a link")),
        opened => opened?,
    };
    let stat = regular(&file)?;
    Ok((file, stat))
}

fn regular(file: &OwnedFd) -> io::Result<Stat> {
    let stat = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat),
        _ => Err(io::Error::other("it is not a file")),
    }
}
