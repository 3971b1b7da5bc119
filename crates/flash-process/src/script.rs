//! Finding the script that a URL's path names, below its folder.
//!
//! No look can leave the folder, whatever links lie there. What is found is a regular file
//! that somebody may run, or nothing. Only names are opened, never contents.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use flash_cgi::script::{self, Found, Split};
use flash_core::upstream::OpenError;
use flash_os::walk::{self, Resolve};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::setup::Folder;

/// A folder that is open.
#[derive(Debug)]
pub(crate) struct Scripts {
    prefix: Vec<u8>,
    path: Vec<u8>,
    folder: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct Script<'p> {
    pub(crate) split: Split<'p>,
    /// Its absolute path, and that of the folder that it lies in.
    pub(crate) file: CString,
    pub(crate) folder: CString,
}

const MAY_RUN: Mode = Mode::XUSR.union(Mode::XGRP).union(Mode::XOTH);

impl Scripts {
    pub(crate) fn open(folder: &Folder) -> io::Result<Self> {
        let path = folder.path.canonicalize()?;
        let flags = walk::SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { prefix: folder.prefix.clone(), path: path.as_os_str().as_bytes().to_vec(), folder: open })
    }

    pub(crate) fn find<'p>(&self, path: &'p [u8]) -> Result<Script<'p>, OpenError> {
        // Most often the whole path is the script. Where it is not, the way there is walked step by step.
        let whole = script::below(path, &self.prefix).and_then(|split| split.info.strip_prefix(b"/"));
        let whole = whole.filter(|name| !name.is_empty()).ok_or(OpenError::NotFound)?;
        let split = match self.look(whole) {
            Ok(Found::Script) => Split { name: path, info: b"" },
            Ok(Found::Folder | Found::Nothing) => return Err(OpenError::NotFound),
            Err(Errno::NOTDIR) => {
                let found = script::find(path, &self.prefix, |name| self.look(name)).map_err(why)?;
                found.ok_or(OpenError::NotFound)?
            }
            Err(error) => return Err(why(error)),
        };
        let name = &split.name[path.len() - whole.len()..];
        let file = [&*self.path, b"/", name].concat();
        let end = file.iter().rposition(|&byte| byte == b'/').unwrap_or_default();
        // A path that came from the request path holds no NUL.
        let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| OpenError::NotFound);
        Ok(Script { split, folder: c_string(&file[..end.max(1)])?, file: c_string(&file)? })
    }

    fn look(&self, name: &[u8]) -> Result<Found, Errno> {
        let resolve = Resolve::BENEATH | Resolve::NO_MAGICLINKS;
        let mut tries_left = 8;
        let place = loop {
            match walk::open(self.folder.as_fd(), name, walk::PLACE, resolve) {
                // Something was renamed during the walk.
                Err(Errno::AGAIN) if tries_left > 0 => tries_left -= 1,
                Err(Errno::INTR) => {}
                Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(Found::Nothing),
                result => break result?,
            }
        };
        let stat = fstat(place)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Ok(Found::Folder),
            FileType::RegularFile if Mode::from_raw_mode(stat.st_mode).intersects(MAY_RUN) => {
                Ok(Found::Script)
            }
            _ => Err(Errno::ACCESS),
        }
    }
}

fn why(error: Errno) -> OpenError {
    match error {
        // A link out of the folder.
        Errno::XDEV | Errno::ACCESS | Errno::PERM => OpenError::Forbidden,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => OpenError::NotFound,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => OpenError::Busy,
        _ => OpenError::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_a_path_names() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("cgi");
        fs::create_dir_all(root.join("sub/deep.cgi")).unwrap();
        for (name, mode) in [
            ("a.cgi", 0o755),
            ("sub/b", 0o700),
            ("plain", 0o644),
            ("sub/deep.cgi/c", 0o755),
            ("../out", 0o755),
        ] {
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("../out", root.join("escape")).unwrap();
        symlink("/bin/sh", root.join("absolute")).unwrap();
        symlink("../a.cgi", root.join("sub/inside")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("round", root.join("round")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o777), 0).unwrap();
        let scripts = Scripts::open(&Folder { prefix: b"/bin".to_vec(), path: root.clone() }).unwrap();

        for (path, name, info) in [
            ("/bin/a.cgi", "/bin/a.cgi", ""),
            ("/bin/a.cgi/", "/bin/a.cgi", "/"),
            ("/bin/a.cgi/x/y", "/bin/a.cgi", "/x/y"),
            ("/bin/sub/b", "/bin/sub/b", ""),
            ("/bin/sub/deep.cgi/c/more", "/bin/sub/deep.cgi/c", "/more"),
            ("/bin/sub/inside", "/bin/sub/inside", ""),
        ] {
            let script = scripts.find(path.as_bytes()).unwrap();
            assert_eq!((script.split.name, script.split.info), (name.as_bytes(), info.as_bytes()));
            let file = root.canonicalize().unwrap().join(name.strip_prefix("/bin/").unwrap());
            assert_eq!(script.file.as_bytes(), file.as_os_str().as_bytes());
            assert_eq!(script.folder.as_bytes(), file.parent().unwrap().as_os_str().as_bytes());
        }
        for (path, expected) in [
            ("/bin", OpenError::NotFound),
            ("/bin/", OpenError::NotFound),
            ("/binary", OpenError::NotFound),
            ("/bin/missing", OpenError::NotFound),
            ("/bin/missing/a.cgi", OpenError::NotFound),
            ("/bin/sub", OpenError::NotFound),
            ("/bin/sub/", OpenError::NotFound),
            ("/bin/round", OpenError::NotFound),
            ("/bin/plain", OpenError::Forbidden),
            ("/bin/plain/x", OpenError::Forbidden),
            ("/bin/fifo", OpenError::Forbidden),
            ("/bin/escape", OpenError::Forbidden),
            ("/bin/escape/x", OpenError::Forbidden),
            ("/bin/absolute", OpenError::Forbidden),
            ("/bin/up/out", OpenError::Forbidden),
        ] {
            assert_eq!(scripts.find(path.as_bytes()).map(|script| script.file), Err(expected), "{path}");
        }
        let long = format!("/bin/{}", "x".repeat(300));
        assert_eq!(scripts.find(long.as_bytes()).map(|script| script.file), Err(OpenError::NotFound));
    }
}
