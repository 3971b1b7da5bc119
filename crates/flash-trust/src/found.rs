//! What lies at a name, as it was looked at.
//!
//! Flags that not every system has are asked for by their names, so that no system is named here. With `O_PATH` anything can be held
//! by a descriptor, a link and a socket too. Without it only folders are. Of all else it is seen afterwards whether it is the same.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::ffi::CString;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::path::Arg;

#[derive(Debug)]
pub(crate) struct Found {
    held: Option<OwnedFd>,
    pub(crate) stat: Stat,
}

impl Found {
    /// Looks at what is at a name, and does nothing to it. A link is not followed.
    pub(crate) fn find(folder: impl AsFd, name: impl Arg + Copy) -> Result<Self, Errno> {
        Self::look(folder, name, OFlags::NOFOLLOW)
    }

    /// The same, and what is done with links is told by a flag.
    pub(crate) fn look(folder: impl AsFd, name: impl Arg + Copy, links: OFlags) -> Result<Self, Errno> {
        let flags = match OFlags::from_name("PATH") {
            Some(path) => path,
            None => {
                let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    return Ok(Self { held: None, stat });
                }
                OFlags::DIRECTORY
            }
        };
        let held = openat(folder, name, flags | links | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&held)?;
        Ok(Self { held: Some(held), stat })
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Its descriptor, where there is one.
    pub(crate) fn held(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn into_folder(self) -> Result<OwnedFd, Errno> {
        self.held.ok_or(Errno::NOTDIR)
    }

    /// A path that leads to it wherever it is now, where a system has one.
    pub(crate) fn path(&self) -> Option<String> {
        self.held.as_ref().and_then(path_of)
    }

    /// The text of a link that was found by this name.
    pub(crate) fn link_text(&self, folder: impl AsFd, name: impl Arg + Copy) -> Result<CString, Errno> {
        if let Some(link) = &self.held {
            return readlinkat(link, "", Vec::new());
        }
        let text = readlinkat(&folder, name, Vec::new())?;
        self.check_same(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?).map(|()| text)
    }

    /// Opens the file that was found by this name.
    pub(crate) fn open(
        &self,
        folder: impl AsFd,
        name: impl Arg + Copy,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match (&self.held, OFlags::from_name("EMPTY_PATH"), self.path()) {
            (_, _, Some(path)) => openat(CWD, path, flags, Mode::empty()),
            (Some(held), Some(empty_path), _) => openat(held, "", flags | empty_path, Mode::empty()),
            _ => {
                let file = openat(folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
                self.check_same(&fstat(&file)?).map(|()| file)
            }
        }
    }

    fn check_same(&self, other: &Stat) -> Result<(), Errno> {
        if is_same(&self.stat, other) { Ok(()) } else { Err(Errno::AGAIN) }
    }
}

/// A path that leads to an open file wherever it is now. Systems that open descriptors by an empty path have none.
pub(crate) fn path_of(file: impl AsFd) -> Option<String> {
    let has = |name| OFlags::from_name(name).is_some();
    let is_there = has("PATH") && !has("EMPTY_PATH");
    is_there.then(|| format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Whether both are of one file that has not changed in between.
fn is_same(one: &Stat, other: &Stat) -> bool {
    let id = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_ctime, stat.st_ctime_nsec);
    id(one) == id(other)
}

/// The type of a file and who may do what with it, which is of another width on some systems.
pub(crate) fn mode_of(stat: &Stat) -> u32 {
    wide(stat.st_mode)
}

fn wide(mode: impl Into<u32>) -> u32 {
    mode.into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_not_held_has_to_be_the_same_afterwards() {
        let made = tempfile::tempdir().unwrap();
        let folder = File::open(made.path()).unwrap();
        let [file, link, other] = ["file", "link", "other"].map(|name| made.path().join(name));
        fs::write(&file, "text").unwrap();
        symlink("file", &link).unwrap();
        let not_held = |name| Found { held: None, stat: Found::find(&folder, name).unwrap().stat };
        let (of_file, of_link) = (not_held("file"), not_held("link"));
        let open = || of_file.open(&folder, "file", OFlags::RDONLY);
        assert_eq!(of_link.link_text(&folder, "link").unwrap().to_bytes(), b"file");
        assert!(open().is_ok());
        for (name, path) in [("file", &file), ("link", &link)] {
            symlink(name, &other).unwrap();
            fs::rename(&other, path).unwrap();
        }
        assert_eq!(of_link.link_text(&folder, "link").unwrap_err(), Errno::AGAIN);
        assert_eq!(open().unwrap_err(), Errno::LOOP);
        fs::write(&other, "text").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_eq!(open().unwrap_err(), Errno::AGAIN);
    }
}
