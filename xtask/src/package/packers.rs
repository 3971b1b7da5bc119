//! cargo-deb and cargo-generate-rpm, which write the packages' formats. Cargo installs them into the folder of what is built, in
//! the versions that are named here. It leaves out what goes into a package.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// A program of crates.io, with the version that the packages are tested with.
#[derive(Clone, Copy)]
pub(super) struct Packer {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

/// `xz` of the system compresses for it.
pub(super) const DEB: Packer =
    Packer { name: "cargo-deb", version: "3.8.0", features: &["--no-default-features"] };
pub(super) const RPM: Packer = Packer { name: "cargo-generate-rpm", version: "0.21.1", features: &[] };

/// They only copy and compress: what is quick to build is quick enough.
const QUICK_TO_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];

impl Packer {
    /// Where it is, after its installation if need be.
    ///
    /// # Errors
    /// When cargo cannot install it.
    pub(super) fn get(self, root: &Path) -> Result<PathBuf> {
        let folder = cargo::target_folder(root).join("tools").join(format!("{}-{}", self.name, self.version));
        let program = folder.join("bin").join(self.name);
        if !program.is_file() {
            println!("building {} {}", self.name, self.version);
            let mut install = Command::new(cargo::program());
            install
                .args(["install", "--quiet", "--locked", "--version", self.version, "--root"])
                .arg(&folder);
            install.arg("--target-dir").arg(cargo::target_folder(root).join("tools/build"));
            install.args(self.features).arg(self.name).envs(QUICK_TO_BUILD);
            let status = install.status().context("starting cargo")?;
            ensure!(status.success(), "cargo could not install {} {}", self.name, self.version);
        }
        Ok(program)
    }
}
