//! Landlock and seccomp.

mod landlock;
mod seccomp;

use std::path::{Path, PathBuf};

/// Files in memory are made in the last folder.
pub(crate) fn forbid_names_but(readable: &[PathBuf], memory: Option<&Path>) -> Result<(), String> {
    landlock::forbid_but_reading(readable, memory)
}

/// The process serves, or reads, or does both. It opens names, of files in memory at least.
pub(crate) fn forbid_calls_but(serves: bool, reads: bool, opens: bool) -> Result<(), String> {
    seccomp::forbid_but(match (serves, reads) {
        (true, true) => seccomp::both(),
        (true, false) => seccomp::serving(opens),
        (false, _) => seccomp::reading(),
    })
}
