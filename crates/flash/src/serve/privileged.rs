//! What the server opens with the rights of the start after it has given them up: logs, and files that its configuration names.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_process::PrivilegedOpener;
use flash_tls::certificates;

use super::certificates::named;
use super::reader::Reader;
use super::{logs, privileges};
use crate::failure::{Failure, cannot};
use crate::flags;

/// Starts the privileged opener if it may be needed later. It removes the names of `sockets` at the end. The logs are open.
pub(super) fn start(
    flags: &flags::Serve,
    reader: Reader,
    sockets: &[PathBuf],
) -> Result<Option<Arc<PrivilegedOpener>>, Failure> {
    let (logs, sockets) = match flags.user.is_some() {
        true => (logs::paths(flags), sockets),
        // The supervisor process has the rights for these.
        false => (Vec::new(), &[][..]),
    };
    // A configuration may name its first certificate after a reload.
    let may_name_files = flags.config.is_some() || !named(flags).is_empty();
    let is_needed = !(logs.is_empty() && sockets.is_empty()) || may_name_files;
    if !(is_needed && privileges::are_given_up(flags)) {
        return Ok(None);
    }
    let names = || match (reader.again)(&|_| Vec::new()) {
        Ok(again) => Ok(named(&again.flags)),
        Err(_) => Err(io::Error::other("the configuration has errors, which `flash check` prints")),
    };
    let opener = PrivilegedOpener::start(&logs, sockets, &names);
    Ok(Some(opener.map_err(|error| cannot(format_args!("start the privileged opener"), &error))?.into()))
}

/// Opens files of the configuration for one look at them: with the rights of this process, or else with those of the start.
pub(super) fn open(opener: Option<Arc<PrivilegedOpener>>) -> impl Fn(&Path) -> io::Result<File> {
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
