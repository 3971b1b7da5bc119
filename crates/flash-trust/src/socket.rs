//! The name of a Unix socket in the filesystem. It outlives the socket, and says by its mode and owner who may connect.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, RawMode, Stat, Uid, chmod, chmodat, chownat, fchmod, unlinkat,
};
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::umask;

use crate::folder_entry::{FolderEntry, Links, is_roots};
use crate::found::mode_of;
use crate::refusal::{is_root, refused};

/// Who may connect to a Unix socket. What is not given stays as the system makes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketAccess {
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
}

/// Binds a socket to a path, for those who may connect. Takes over a name that a server left behind, but none at which a process
/// listens. Until the socket listens, connections are refused.
///
/// # Errors
/// As binding fails, or if something else is there. As root also if another user could have the path lead to another folder.
pub fn bind(socket: impl AsFd, path: &Path, access: SocketAccess) -> io::Result<()> {
    let place = FolderEntry::find(path, Links::OfRoot)?;
    place.check_path()?;
    match place.stat()? {
        Some(stat) if !is_socket(&stat) => return Err(not_a_socket()),
        Some(stat) if may_remove(&place, &stat) => remove_stale(&place)?,
        Some(_) | None => {}
    }
    // By its path, which is what clients and successors see. Nobody can have it lead elsewhere.
    let address = SocketAddrUnix::new(path)?;
    match access.mode {
        None => net::bind(socket, &address)?,
        // The name gets the mode of the socket, so nothing has to be changed that another user could have put there meanwhile.
        Some(mode) => {
            fchmod(&socket, Mode::from_raw_mode(mode as RawMode))?;
            let mask = umask(Mode::empty());
            let bound = net::bind(socket, &address);
            umask(mask);
            bound?;
        }
    }
    apply(&place, SocketAccess { mode: None, ..access })
}

/// Gives the name of a socket another mode and other owners, where they differ.
///
/// # Errors
/// If this process has no right to do that, or something else is there. As root also if another user may have put it there.
pub fn set_access(path: &Path, access: SocketAccess) -> io::Result<()> {
    apply(&FolderEntry::find(path, Links::OfRoot)?, access)
}

/// Removes the name if it is a socket's at which no process listens. What a successor listens at stays, and so does a file.
///
/// # Errors
/// When the name cannot be removed, or nobody may ask who listens there.
pub fn remove_abandoned(path: &Path) -> io::Result<()> {
    let place = FolderEntry::find(path, Links::OfRoot)?;
    match place.stat()? {
        Some(stat) if is_socket(&stat) && may_remove(&place, &stat) => remove_stale(&place),
        Some(_) | None => Ok(()),
    }
}

/// Where another user decides what is there, only that user's own is removed.
fn may_remove(place: &FolderEntry, stat: &Stat) -> bool {
    let deciders = place.deciders();
    !is_root() || deciders.is_root() || deciders.is_only(stat.st_uid)
}

fn remove_stale(place: &FolderEntry) -> io::Result<()> {
    let found = place.look()?;
    let path = found.path().map_or_else(|| place.path(), Into::into);
    let connected = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).and_then(|socket| {
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        // The queue of a busy listener may be full.
        ioctl_fionbio(&socket, true)?;
        net::connect(socket, &SocketAddrUnix::new(path)?)
    });
    match connected {
        Err(Errno::CONNREFUSED) => Ok(unlinkat(&place.folder.descriptor, &place.name, AtFlags::empty())?),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Changes what it has looked at, whatever has become of the path meanwhile.
fn apply(place: &FolderEntry, access: SocketAccess) -> io::Result<()> {
    let SocketAccess { mode, user, group } = access;
    if (mode, user, group) == (None, None, None) {
        return Ok(());
    }
    let found = place.look()?;
    let stat = &found.stat;
    if !is_socket(stat) {
        return Err(not_a_socket());
    }
    if is_root() && !place.is_closed() {
        let deciders = place.deciders();
        let is_roots_own = is_roots(stat.st_uid) && deciders.is_root();
        if !(is_roots_own || deciders.is_only(stat.st_uid) || user == Some(stat.st_uid)) {
            return Err(refused(&place.path(), "is not of the user who decides what is there"));
        }
        match found.held().filter(|_| found.path().is_some()) {
            Some(name) if place.is_only_name(name)? => {}
            Some(_) => return Err(refused(&place.path(), "has a second name")),
            None => return Err(refused(&place.path(), "may be replaced while it is changed")),
        }
    }
    let folder = &place.folder.descriptor;
    let user = user.filter(|user| *user != stat.st_uid).map(Uid::from_raw);
    let group = group.filter(|group| *group != stat.st_gid).map(Gid::from_raw);
    if user.is_some() || group.is_some() {
        match (found.held(), AtFlags::from_name("EMPTY_PATH")) {
            (Some(name), Some(empty_path)) => chownat(name, "", user, group, empty_path)?,
            _ => chownat(folder, &place.name, user, group, AtFlags::SYMLINK_NOFOLLOW)?,
        }
    }
    let Some(mode) = mode.filter(|mode| *mode != mode_of(stat) & 0o7777) else { return Ok(()) };
    let mode = Mode::from_raw_mode(mode as RawMode);
    match found.path() {
        Some(path) => Ok(chmod(path, mode)?),
        None => Ok(chmodat(folder, &place.name, mode, AtFlags::SYMLINK_NOFOLLOW)?),
    }
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

fn not_a_socket() -> io::Error {
    io::Error::other("a file or folder is there, which is not a socket")
}
