//! The files that names are looked up with. A sandbox allows the files that are there when it begins, and not those that take their
//! places. So a connector ends when one was replaced, and the next one, whose sandbox is new, looks names up with the new file.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::net::Shutdown;

#[derive(Debug)]
pub(super) struct NameFiles {
    seen: Vec<(PathBuf, Option<Identity>)>,
    /// What the connector is asked over.
    control: OwnedFd,
}

/// Device and inode.
type Identity = (u64, u64);

impl NameFiles {
    pub(super) fn new(paths: &[&str], control: OwnedFd) -> Self {
        let seen = paths.iter().map(|path| (PathBuf::from(path), identity(Path::new(path))));
        Self { seen: seen.collect(), control }
    }

    /// Ends the connector if another file is at one of the paths. Files that are gone are not waited for.
    pub(super) fn end_if_replaced(&self) {
        let is_replaced =
            |(path, seen): &(PathBuf, Option<Identity>)| identity(path).is_some_and(|now| Some(now) != *seen);
        if self.seen.iter().any(is_replaced) {
            // The server asks the next one what this one has not answered.
            let _ = rustix::net::shutdown(&self.control, Shutdown::Both);
        }
    }
}

/// A sandbox hides what is in a file, and not which one it is.
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}
