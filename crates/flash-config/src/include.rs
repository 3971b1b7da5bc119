//! The files that a pattern names, such as `/etc/flash/sites/*.toml`.

use std::path::Path;

use crate::File;

/// The files in the order of their names. A pattern may name none, a path without `*`, `?` and `[` has to be there.
///
/// # Errors
/// Why one of them cannot be read.
pub(crate) fn files(pattern: &Path) -> Result<Vec<File>, String> {
    let text = pattern.to_str().ok_or("write it in UTF-8")?;
    let read = |path: &Path| {
        File::read(path, path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    if !text.contains(['*', '?', '[']) {
        return read(pattern).map(|file| vec![file]);
    }
    let found = glob::glob(text).map_err(|error| error.to_string())?;
    found.map(|path| read(&path.map_err(|error| error.to_string())?)).collect()
}
