//! A site's own error pages, read once at its start.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

/// Reads a site's own error pages, `404.html` and the like.
pub fn error_pages(folder: &Path) -> io::Result<HashMap<u16, Vec<u8>>> {
    let mut pages = HashMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let code =
            name.to_str().and_then(|name| name.strip_suffix(".html")).and_then(|code| code.parse().ok());
        let Some(code @ 400..=599) = code else { continue };
        if entry.metadata()?.len() > PAGE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{} is larger than {PAGE_BYTES_MAX} bytes",
                entry.path().display()
            )));
        }
        pages.insert(code, fs::read(entry.path())?);
    }
    Ok(pages)
}

const PAGE_BYTES_MAX: u64 = 1 << 20;
