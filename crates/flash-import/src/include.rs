//! The files that `include` names, from the disk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Imported;
use crate::directive::Include;
use crate::note::Error;

type Import = fn(&Path, &str, Include<'_>) -> Result<Imported, Error>;

/// Imports a file of this machine, with the files that it names.
pub(crate) fn import(path: &Path, import: Import) -> Result<Imported, String> {
    import(path, &read(path)?, &files).map_err(|error| error.to_string())
}

/// One file's text. What is not UTF-8 in it stands in comments, or in names that no request has.
fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of a pattern in the order of their names. A pattern may find none; a name without one has to exist.
fn files(pattern: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let text = pattern.to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return Ok(vec![(pattern.to_owned(), read(pattern)?)]);
    }
    let found = glob::glob(&text).map_err(|error| format!("{text}: {error}"))?;
    let files = found.collect::<Result<Vec<_>, _>>().map_err(|error| format!("{text}: {error}"))?;
    let files = files.into_iter().filter(|path| path.is_file());
    files.map(|path| read(&path).map(|text| (path, text))).collect()
}
