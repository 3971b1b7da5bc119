//! Folders of what runs make.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

/// Removes the folder, if there is one.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
    .with_context(|| format!("removing {}", folder.display()))
}

/// Makes the folder anew, without what an earlier run left in it.
///
/// # Errors
/// When it cannot be removed or made.
pub fn make_empty(folder: &Path) -> Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}
