//! Folders that have their places by custom.

use std::env;
use std::path::PathBuf;

/// The part of a user's home that is served.
pub(super) const PUBLIC_FOLDER: &str = "public_html";

/// Large files are not for `/tmp`, which is in memory on many machines.
pub(super) fn temporary_folder() -> PathBuf {
    env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map_or_else(|| "/var/tmp".into(), PathBuf::from)
}
