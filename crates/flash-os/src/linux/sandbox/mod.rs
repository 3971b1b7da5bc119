//! Landlock and seccomp.

mod landlock;
mod seccomp;

use std::path::PathBuf;

pub(crate) fn forbid_names_but(readable: &[PathBuf]) -> Result<(), String> {
    landlock::forbid_but_reading(readable)
}

/// The process serves, or reads, or does both.
pub(crate) fn forbid_calls_but(serves: bool, reads: bool) -> Result<(), String> {
    seccomp::forbid_but(match (serves, reads) {
        (true, true) => seccomp::both(),
        (true, false) => seccomp::serving(),
        (false, _) => seccomp::reading(),
    })
}
