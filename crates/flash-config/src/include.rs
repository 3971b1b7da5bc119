//! The files that a pattern names, such as `/etc/flash/sites/*.toml`.

use std::path::Path;

use crate::{File, Files};

/// The files in the order of their names. A pattern may name none, a path without `*`, `?` and `[` has to be there.
///
/// # Errors
/// Why one of them cannot be read.
pub(crate) fn files(pattern: &Path, of: &Files) -> Result<Vec<File>, String> {
    let text = pattern.to_str().ok_or("write it in UTF-8")?;
    if !text.contains(['*', '?', '[']) {
        return of.read_more(pattern).map(|file| vec![file]);
    }
    let found = glob::glob(text).map_err(|error| error.to_string())?;
    found.map(|path| of.read_more(&path.map_err(|error| error.to_string())?)).collect()
}
