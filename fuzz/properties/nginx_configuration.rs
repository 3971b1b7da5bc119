//! Configurations of nginx. No text may cause a panic. What is imported is TOML, and each note and each error names a line that the
//! text has.

use std::path::Path;

use flash_import::nginx;

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = 1..=text.split('\n').count();
    let nothing = |_: &Path| Ok(Vec::new());
    match nginx::import(Path::new("/etc/nginx/nginx.conf"), text, &nothing) {
        Ok(imported) => {
            if let Err(why) = imported.file().parse::<toml::Table>() {
                panic!("{why}\n{}", imported.file());
            }
            assert!(imported.taken() <= imported.directives);
            let sources = imported.notes.iter().filter_map(|note| note.source.as_ref());
            sources.for_each(|source| assert!(lines.contains(&source.line), "{}", source.line));
        }
        Err(error) => assert!(lines.contains(&error.line), "{error}"),
    }
}
