//! Files that commands leave: whole or not at all, so that what a later run finds can be trusted.

use std::fs;
use std::path::{Path, PathBuf};

use flash_cli::Failure;

/// Makes a folder where there is none.
pub(crate) fn folder(path: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::io("make", path, &error))?;
    Ok(path.to_owned())
}

/// Writes a file beside its place and moves it there.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| Failure::io("write to", path, &error))
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))
}
