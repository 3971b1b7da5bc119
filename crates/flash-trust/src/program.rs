//! Programs that are executed with the rights of the start: only root and the user of the start can have written them.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType};
use rustix::io::Errno;

use crate::found::{Found, mode_of};

/// Group and others may write. In a folder with the sticky bit they may at least put a file where there is none.
const WRITABLE: u32 = 0o022;

/// Looks at the program and at each folder above it, from the root of the filesystem down. If only root and the user of the start may
/// write all of them, nobody else can put another file in the program's place. So it may be executed by this path afterwards.
///
/// # Errors
/// If another user may have written it, or may put something else in its place. A symbolic link is none of theirs, and refused
/// all the same: the path has to be the real one.
pub fn program(path: &Path) -> io::Result<()> {
    let failed = |why: &str, place: &Path| {
        let (path, place) = (path.display(), place.display());
        io::Error::other(format!("{path} is not executed with the rights of the start: {why} ({place})"))
    };
    let check = |found: Result<Found, Errno>, place: &Path| {
        let found = found.map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: {error}", place.display()))
        })?;
        let status = &found.stat;
        let why = match found.kind() {
            FileType::Symlink => Some("it is a symbolic link"),
            _ if status.st_uid != 0 && status.st_uid != rustix::process::geteuid().as_raw() => {
                Some("it is another user's")
            }
            _ if mode_of(status) & WRITABLE != 0 => Some("others may write it"),
            _ => None,
        };
        why.map_or(Ok(found), |why| Err(failed(why, place)))
    };
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(failed("its path is not absolute", path));
    }
    let mut place = PathBuf::from("/");
    let mut last = check(Found::find(CWD, "/"), &place)?;
    for component in components {
        let Component::Normal(name) = component else {
            return Err(failed("its path is not the real one", path));
        };
        place.push(name);
        let found = last.into_folder().and_then(|folder| Found::find(folder, name));
        last = check(found, &place)?;
    }
    match last.kind() {
        FileType::RegularFile => Ok(()),
        _ => Err(failed("it is not a file", path)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A folder that only this user and root can put something into, as those that the tests lie in.
    fn folder() -> tempfile::TempDir {
        let own = std::env::current_exe().unwrap();
        tempfile::tempdir_in(own.parent().unwrap()).unwrap()
    }

    #[test]
    fn only_programs_that_nobody_else_can_write_are_trusted() {
        let folder = folder();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("flash");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(&file, 0o755);
        mode(&inner, 0o755);
        program(&file).unwrap();
        let refused = |path: &Path, why: &str, place: &Path| {
            let said = program(path).unwrap_err().to_string();
            let what = format!(
                "{} is not executed with the rights of the start: {why} ({})",
                path.display(),
                place.display()
            );
            assert_eq!(said, what);
        };
        for (path, wrong, right) in [
            (&file, 0o775, 0o755),
            (&file, 0o757, 0o755),
            (&inner, 0o777, 0o755),
            // If the program is removed, anybody can put another one there, as in /tmp.
            (&inner, 0o1777, 0o755),
        ] {
            mode(path, wrong);
            refused(&file, "others may write it", path);
            mode(path, right);
        }
        refused(&inner, "it is not a file", &inner);
        let dots = inner.join("../inner/flash");
        refused(&dots, "its path is not the real one", &dots);
        refused(Path::new("flash"), "its path is not absolute", Path::new("flash"));
        assert_eq!(program(&inner.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        if rustix::process::geteuid().is_root() {
            for path in [&file, &inner] {
                chown(path, Some(65_534), None).unwrap();
                refused(&file, "it is another user's", path);
                chown(path, Some(0), None).unwrap();
            }
        }
    }

    #[test]
    fn a_link_that_leads_to_a_trusted_program_is_no_trusted_program() {
        let folder = folder();
        let [flash, link, inner] = ["flash", "link", "inner"].map(|name| folder.path().join(name));
        fs::write(&flash, "").unwrap();
        symlink(&flash, &link).unwrap();
        symlink(folder.path(), &inner).unwrap();
        program(&flash).unwrap();
        for (path, place) in [(link.clone(), link), (inner.join("flash"), inner)] {
            let why = program(&path).unwrap_err().to_string();
            assert!(why.contains(&format!("it is a symbolic link ({})", place.display())), "{why}");
        }
    }
}
