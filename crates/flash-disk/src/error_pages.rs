//! A site's own error pages, read once at its start.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
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
        let path = entry.path();
        let mut page = Vec::new();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        flash_trust::open(&path)
            .and_then(|file| file.take(PAGE_BYTES_MAX + 1).read_to_end(&mut page))
            .map_err(named)?;
        if page.len() as u64 > PAGE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{} is larger than {PAGE_BYTES_MAX} bytes",
                path.display()
            )));
        }
        pages.insert(code, page);
    }
    Ok(pages)
}

const PAGE_BYTES_MAX: u64 = 1 << 20;
