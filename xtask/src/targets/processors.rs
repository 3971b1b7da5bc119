//! `cargo xtask processors`: tests on aarch64, in qemu's emulator of programs.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::toolchain::{Toolchain, in_variables, need};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian's cross compiler has its libraries.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Their unit tests run.
const CRATES: [&str; 5] = ["flash-os", "flash-disk", "flash-http", "flash-h2", "flash-core"];

pub(crate) fn run(root: &Path) -> Result<bool> {
    need(&[(COMPILER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")])?;
    let toolchain = Toolchain::find(root)?;
    let mut test = toolchain.cargo("test", TARGET);
    test.args(CRATES.iter().flat_map(|name| ["--package", name])).arg("--lib").arg("--no-fail-fast");
    test.env(format!("CC_{}", in_variables(TARGET)), COMPILER);
    let of_cargo = format!("CARGO_TARGET_{}", in_variables(TARGET).to_uppercase());
    test.env(format!("{of_cargo}_LINKER"), COMPILER);
    test.env(format!("{of_cargo}_RUNNER"), format!("{EMULATOR} -L {LIBRARIES}"));
    ensure!(test.status().context("starting rustup")?.success(), "tests fail on {TARGET}");
    Ok(true)
}
