//! Flash knows no sandbox of these systems.

use std::path::{Path, PathBuf};

use crate::sandbox::Work;

pub(crate) fn forbid_names_but(
    _work: Work,
    _readable: &[PathBuf],
    _changed: (&[PathBuf], Option<&Path>),
) -> Result<(), String> {
    Err("this system has no Landlock".into())
}

pub(crate) fn forbid_calls_but(_work: Work, _makes: bool) -> Result<(), String> {
    Err("this system has no seccomp".into())
}
