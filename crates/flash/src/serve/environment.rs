//! The environment of the server that takes this one's place in an upgrade. It begins with the rights of the start. So it gets what
//! Flash reads, and nothing that changes how a program is loaded (`LD_PRELOAD`, `GCONV_PATH`).

use std::env;
use std::ffi::OsString;

use crate::flags;
use crate::start_folder::{self, start_folder};

/// What Flash reads, and what its C library needs for languages and time zones.
const KEPT: [&str; 13] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "CREDENTIALS_DIRECTORY",
    "PATH",
    "HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "TZ",
    "LANG",
];
/// How the names of others begin.
const LANGUAGES: &str = "LC_";

/// What is kept of this process's environment, and the folder of the start.
pub(super) fn of_next_server(flags: &flags::Serve) -> Vec<(OsString, OsString)> {
    let is_kept = |name: &str| {
        KEPT.contains(&name) || name.starts_with(LANGUAGES) || flags.environment.iter().any(|own| own == name)
    };
    let kept = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept));
    kept.chain([(start_folder::VARIABLE.into(), start_folder().into())]).collect()
}
