//! A compiler that takes unstable flags, with the source of the standard library of its version.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{self, succeed};
use crate::debian::Release;
use crate::machine::AMD64;

/// Releases of Debian that may have the library of that version.
const RELEASES: [&str; 3] = ["sid", "forky", "experimental"];

/// A compiler with the standard library's source.
pub(super) struct Toolchain {
    library: PathBuf,
    pub(super) target_folder: PathBuf,
    root: PathBuf,
}

impl Toolchain {
    /// # Errors
    /// When there is no nightly compiler, or no source of its version.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let version = succeed(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]))
            .context("NOT TESTED: this needs a nightly toolchain of rustup")?;
        let version = version.split([' ', '-']).nth(1).context("a version")?;
        let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
        for name in RELEASES {
            // The source is the same for all.
            let release = Release::open(root, name, AMD64.name)?;
            let source = release.version("rust-src")?;
            if let Some(source) = source.filter(|source| source.starts_with(&format!("{minor}."))) {
                let number = source.split('+').next().unwrap_or(&source);
                let library = format!("usr/src/rustc-{number}/library");
                return Ok(Self {
                    library: release.unpacked("rust-src")?.join(library),
                    target_folder: cargo::target_folder(root).join("foreign"),
                    root: root.to_owned(),
                });
            }
        }
        bail!("NOT TESTED: no release of Debian has the source of Rust {minor}'s library")
    }

    /// Cargo for another target. Of `std`, only what it needs is built.
    pub(super) fn cargo(&self, task: &str, target: &str) -> Command {
        let mut cargo = Command::new("rustup");
        cargo.args([
            "run",
            "nightly",
            "cargo",
            task,
            "-Zbuild-std=std,panic_unwind,test",
            "--target",
            target,
        ]);
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target_folder);
        // Where cargo looks for what rustup would have installed.
        cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", &self.library);
        for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env_remove(name);
        }
        cargo
    }
}

/// The name of a target as it stands in names of variables.
pub(super) fn in_variables(target: &str) -> String {
    target.replace('-', "_")
}
