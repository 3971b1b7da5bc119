//! Landlock and seccomp.

mod landlock;
mod seccomp;

use std::path::{Path, PathBuf};

use crate::sandbox::Work;

/// `changed` are the folders that may be changed, and the one where files in memory are made.
pub(crate) fn forbid_names_but(
    work: Work,
    readable: &[PathBuf],
    changed: (&[PathBuf], Option<&Path>),
) -> Result<(), String> {
    landlock::forbid_but_reading(work, readable, changed)
}

/// `makes` files in memory that have names at first.
pub(crate) fn forbid_calls_but(work: Work, makes: bool) -> Result<(), String> {
    seccomp::forbid_but(seccomp::needed(work, makes))
}
