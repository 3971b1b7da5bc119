//! Programs that a server with fewer rights may have executed: only root and the user of the start can have written them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Group and others may write.
const WRITABLE: u32 = 0o022;
/// In a folder with this bit, files are their owners' alone.
const STICKY: u32 = 0o1000;

/// The real path of the program.
///
/// # Errors
/// If another user may have written it, or may put something else in its place.
pub fn program(path: &Path) -> io::Result<PathBuf> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // What has no name anywhere, such as memory, is found nowhere.
    let real = path.canonicalize().map_err(named)?;
    for place in real.ancestors() {
        let metadata = place.symlink_metadata().map_err(named)?;
        let is_owned = metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw();
        let is_sticky = metadata.is_dir() && metadata.mode() & STICKY != 0;
        let is_writable = metadata.mode() & WRITABLE != 0 && !is_sticky;
        let whose = match (is_owned, is_writable) {
            (true, false) => continue,
            (false, _) => "it is another user's",
            (true, true) => "others may write it",
        };
        let (real, place) = (real.display(), place.display());
        return Err(io::Error::other(format!(
            "{real} is not executed with the rights of the start: {whose} ({place})"
        )));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_programs_that_nobody_else_can_write_are_trusted() {
        // On some machines anybody may replace what is in /tmp.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("flash");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        mode(&file, 0o755);
        mode(&inner, 0o755);
        assert_eq!(program(&file).unwrap(), file.canonicalize().unwrap());
        mode(&inner, 0o1777);
        assert!(program(&file).is_ok(), "as in /tmp, nobody else can replace it");
        for (path, wrong, right) in [(&file, 0o775, 0o755), (&file, 0o757, 0o755), (&inner, 0o777, 0o755)] {
            mode(path, wrong);
            let why = program(&file).unwrap_err().to_string();
            assert!(why.contains("others may write it") && why.contains(path.to_str().unwrap()), "{why}");
            mode(path, right);
        }
        assert!(program(&folder.path().join("none")).is_err());
    }
}
