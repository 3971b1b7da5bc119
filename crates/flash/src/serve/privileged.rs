//! The start of the process that opens for the server what it may not: logs, and [files](super::named_files) of the configuration.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_process::PrivilegedOpener;

use super::plan::Plan;
use super::reader::Reader;
use super::{certificates, logs, privileges};
use crate::failure::{Failure, cannot};
use crate::flags::{self, FieldWords, NamedUpstream};

/// Starts the privileged opener if it may be needed later. It removes the names of `sockets` at the end.
pub(super) fn start(
    plan: &Plan,
    reader: Reader,
    sockets: &[PathBuf],
) -> Result<Option<Arc<PrivilegedOpener>>, Failure> {
    let flags = &*plan.flags;
    let (logs, sockets) = match flags.user.is_some() {
        true => (logs::paths(plan), sockets),
        // The supervisor process has the rights for these.
        false => (Vec::new(), &[][..]),
    };
    // A configuration may name its first certificate after a reload.
    let may_name_files = flags.config.is_some() || !named_files(flags).is_empty();
    let is_needed = !(logs.is_empty() && sockets.is_empty()) || may_name_files;
    if !(is_needed && privileges::are_given_up(flags)) {
        return Ok(None);
    }
    let of_configuration = |names: fn(&flags::Serve) -> Vec<PathBuf>| match (reader.again)(&|_| Vec::new()) {
        // The users are those of the start, whatever the files say now.
        Ok(again) => privileges::check_files(&again.flags.files, flags)
            .map(|()| names(&again.flags))
            .map_err(io::Error::other),
        Err(_) => Err(io::Error::other("the configuration has errors, which `flash check` prints")),
    };
    let (log_names, names) = (|| of_configuration(logs::named), || of_configuration(named_files));
    let opener = PrivilegedOpener::start(&logs, sockets, (&log_names, &names));
    Ok(Some(opener.map_err(|error| cannot(format_args!("start the privileged opener"), &error))?.into()))
}

/// The certificates, keys, authorities, password files, keys of links and sessions, tables of redirections and lists of words that the flags name.
fn named_files(flags: &flags::Serve) -> Vec<PathBuf> {
    let of_sites = flags.rules_of_sites().map(|rules| &*rules.flags);
    let of_rules = |flags: &flags::Serve| -> Vec<PathBuf> {
        let others = [&flags.programs.http.proxy_ca, &flags.rules.redirects].into_iter().flatten();
        let lists = flags.rules.field_rules.iter().filter_map(|of| match &of.words {
            FieldWords::File(path) => Some(&**path),
            FieldWords::Lines(_) => None,
        });
        let sticky = flags.programs.http.upstream.iter().filter_map(NamedUpstream::key);
        let others = others.map(PathBuf::as_path).chain(sticky).chain(lists);
        flags.rules.files().chain(others).map(Path::to_owned).collect()
    };
    certificates::named(flags)
        .into_iter()
        .chain([flags].into_iter().chain(of_sites).flat_map(of_rules))
        .collect()
}
