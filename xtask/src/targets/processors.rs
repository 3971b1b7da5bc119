//! `cargo xtask processors`: the server and unit tests on aarch64, in qemu's emulator of machines.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::toolchain::{Toolchain, in_variables};
use crate::cargo::succeed;
use crate::debian::{self, need};
use crate::machine::{ARM64, Machine};
use crate::test::programs;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Their unit tests run.
const CRATES: [&str; 6] = ["flash-os", "flash-disk", "flash-http", "flash-h2", "flash-cgi", "flash-trust"];
const SECONDS_MAX: u32 = 1200;

pub(crate) fn run(root: &Path) -> Result<bool> {
    need(ARM64.needs)?;
    let toolchain = Toolchain::find(root)?;
    let cargo = |task| {
        let mut cargo = toolchain.cargo(task, TARGET);
        cargo.env(format!("CC_{}", in_variables(TARGET)), COMPILER);
        cargo.env(format!("CARGO_TARGET_{}_LINKER", in_variables(TARGET).to_uppercase()), COMPILER);
        cargo
    };
    succeed(cargo("build").args(["--release", "--package", "flash", "--bin", "flash"]))?;
    let mut test = cargo("test");
    test.args(CRATES.iter().flat_map(|name| ["--package", name]));
    let built = succeed(test.args(["--lib", "--no-run", "--message-format=json"]))?;
    let tests: Vec<PathBuf> =
        programs::built(&built)?.into_iter().map(|program| program.executable).collect();
    ensure!(tests.len() == CRATES.len(), "{} programs of tests in place of {}", tests.len(), CRATES.len());
    let flash = toolchain.target_folder.join(TARGET).join("release/flash");
    Machine::new(root, &ARM64, &flash, &tests)?.boot(root, &debian::codename()?, SECONDS_MAX)
}
