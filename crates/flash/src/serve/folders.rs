//! Folders that have their places by custom, and the files that answer for a folder.

use crate::flags;
use std::env;
use std::path::PathBuf;

/// The part of a user's home that is served.
pub(super) const PUBLIC_FOLDER: &str = "public_html";

/// Large files are not for `/tmp`, which is in memory on many machines.
pub(super) fn temporary_folder() -> PathBuf {
    env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// In the folder of the service manager for what can be made again.
pub(super) fn usual_digest_store() -> Option<PathBuf> {
    let folders = env::var_os("CACHE_DIRECTORY")?;
    let folder = env::split_paths(&folders).next().filter(|folder| folder.is_absolute())?;
    Some(folder.join("digests"))
}

/// The names of the files that answer for their folders.
pub(super) fn indexes(flags: &flags::Serve) -> Vec<Vec<u8>> {
    let names = match &flags.index[..] {
        [] => flags.programs.indexes(),
        asked => asked.to_vec(),
    };
    names.into_iter().map(String::into_bytes).collect()
}
