//! `cargo xtask bench` and `cargo xtask soak`: programs of their own, built as packages are, because an unoptimised client would
//! measure itself.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;

pub(crate) const HELP: &str = "\
cargo xtask bench [OPTIONS]    processor time per request, beside the peers that are installed (--help)
cargo xtask soak [OPTIONS]     hours of visitors, slow and rude clients; every byte checked (--help)
";

/// Builds a program with those that it starts, and goes on as that program.
///
/// # Errors
/// When cargo cannot build it.
pub(crate) fn run(root: &Path, program: &str, starts: &[&str], args: &[&str]) -> Result<bool> {
    let mut build = vec!["build", "--profile", cargo::DIST, "--quiet", "--package", program];
    build.extend(starts.iter().flat_map(|started| ["--package", started]));
    cargo::run(root, &build)?;
    let path = cargo::target_folder(root).join(cargo::DIST).join(program);
    let error = Command::new(&path).args(args).exec();
    Err(error).with_context(|| format!("running {}", path.display()))
}
