//! Configurations of other servers. No text may cause a panic. What is imported is TOML, and each note and each error names a line
//! that the text has.

use std::path::Path;

use flash_import::{apache, nginx};

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = 1..=text.split('\n').count();
    let nothing = |_: &Path| Ok(Vec::new());
    for imported in [
        nginx::import(Path::new("/etc/nginx/nginx.conf"), text, &nothing),
        apache::import(Path::new("/etc/apache2/apache2.conf"), text, &nothing),
        apache::import(Path::new("/srv/www/.htaccess"), text, &nothing),
    ] {
        match imported {
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
}
