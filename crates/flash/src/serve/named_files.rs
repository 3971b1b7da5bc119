//! Files that the configuration names, opened again by a server that may have given up its rights.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use flash_process::PrivilegedOpener;
use flash_tls::certificates;

/// Opens files of the configuration for one look at them: with the rights of this process, or else with those of the start.
pub(super) fn opened_by(opener: Option<Arc<PrivilegedOpener>>) -> impl Fn(&Path) -> io::Result<File> {
    let files = OnceCell::new();
    move |path| match (certificates::open(path), &opener) {
        (Err(error), Some(opener)) if error.kind() == ErrorKind::PermissionDenied => {
            match files.get_or_init(|| opener.named_files()) {
                Ok(files) => files.open(path),
                Err(_) => Err(error),
            }
        }
        (opened, _) => opened,
    }
}
