//! Folders of the server's own: for its socket, and for certificates that it makes.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Mode, RawMode};
use rustix::io::Errno;

use crate::folder_entry::{FolderEntry, Links};
use crate::refusal::{is_root, refused};

/// Makes a folder, if it is missing.
///
/// # Errors
/// As making it fails. As root also if it would lie in another user's folder.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if !is_root() {
        return match DirBuilder::new().mode(mode).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
    }
    let place = FolderEntry::find(path, Links::OfRoot)?;
    if !place.folder.is_roots() {
        return Err(refused(&place.folder.path, "is another user's"));
    }
    place.check_path()?;
    match rustix::fs::mkdirat(&place.folder.descriptor, &place.name, Mode::from_raw_mode(mode as RawMode)) {
        Err(Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// Whether this process may do in this folder what it likes, by paths.
///
/// # Errors
/// As root, if another user can write in it, or could put another one in its place.
pub fn check_folder(path: &Path) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    // The name does not matter, and need not be there.
    FolderEntry::find(&path.join("flash"), Links::OfRoot)?.deciders_with_groups().check_none()
}
