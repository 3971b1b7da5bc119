//! The folder in which a server was started: relative paths of the command line begin there.
//!
//! The server itself works in `/`, as all processes with the rights of the start do. In an upgrade the next server is told of the
//! folder, because it has the same command line.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where the next server finds it.
pub(crate) const VARIABLE: &str = "FLASH_START_FOLDER";

/// The folder. The first call has to come before the process leaves it.
pub(crate) fn start_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let told = env::var_os(VARIABLE).map(PathBuf::from).filter(|folder| folder.is_absolute());
        // Nothing is found in a folder that was removed.
        told.or_else(|| env::current_dir().ok()).unwrap_or_else(|| "/".into())
    })
}

/// A path of the command line, for a process that works elsewhere.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    start_folder().join(path)
}
