//! Landlock and seccomp.

mod landlock;
mod seccomp;

use std::path::{Path, PathBuf};

use crate::sandbox::Work;

/// Files in memory are made in the last folder.
pub(crate) fn forbid_names_but(readable: &[PathBuf], memory: Option<&Path>) -> Result<(), String> {
    landlock::forbid_but_reading(readable, memory)
}

/// `makes` files in memory that have names at first.
pub(crate) fn forbid_calls_but(work: Work, makes: bool) -> Result<(), String> {
    seccomp::forbid_but(seccomp::needed(work, makes))
}
