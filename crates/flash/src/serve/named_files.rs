//! Files that the configuration names, opened again by a server that may have given up its rights.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use flash_process::PrivilegedOpener;

/// Opens a file that the configuration names.
pub(super) type OpenNamed<'a> = dyn Fn(&Path) -> io::Result<File> + 'a;

/// What is read of what the configuration names, and how it is opened.
pub(super) type ReadNamed<'a> = (&'a OpenNamed<'a>, Secrets);

/// Whether password files and keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    Read,
    /// They are not, so this process and those that it starts do not have them. A server reads them after it has started the others.
    Left,
}

/// Opens a file with the rights of this process.
pub(super) fn open(path: &Path) -> io::Result<File> {
    flash_trust::open(path)
}

/// The same for a process whose server has more rights, and reads the file itself.
pub(super) fn open_or_leave(path: &Path) -> io::Result<File> {
    match open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open("/dev/null"),
        opened => opened,
    }
}

/// Opens files of the configuration for one look at them: with the rights of this process, or else with those of the start.
pub(super) fn opened_by(opener: Option<Arc<PrivilegedOpener>>) -> impl Fn(&Path) -> io::Result<File> {
    let files = OnceCell::new();
    move |path| match (open(path), &opener) {
        (Err(error), Some(opener)) if error.kind() == ErrorKind::PermissionDenied => {
            match files.get_or_init(|| opener.named_files()) {
                Ok(files) => files.open(path),
                Err(_) => Err(error),
            }
        }
        (opened, _) => opened,
    }
}
