//! What pip brings into a folder of what is built: packages with their versions and hashes, and nothing that they depend on.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Installs what the file `requirements` names into this folder.
///
/// # Errors
/// When pip is not there, or cannot.
pub(crate) fn install(root: &Path, requirements: &str, folder: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"])
        .args(["--upgrade", "--requirement", requirements, "--target"])
        .arg(folder)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .current_dir(root);
    let status = pip.status().context("starting python3")?;
    if !status.success() {
        bail!("pip could not install what {requirements} names: {status}");
    }
    Ok(())
}
