//! `cargo xtask musl`: the server as one file that needs no library of the system, for any Linux.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use super::toolchain::{Toolchain, in_variables};
use crate::cargo::{self, succeed};
use crate::debian::need;

pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let profile = match args {
        [] => cargo::DIST,
        ["--release"] => "release",
        _ => bail!("no such option: {}", args.join(" ")),
    };
    println!("{}", build(root, profile)?.display());
    Ok(true)
}

/// Builds it, and gives the program.
///
/// # Errors
/// When there is no compiler for it, or it does not compile.
pub(crate) fn build(root: &Path, profile: &str) -> Result<PathBuf> {
    need(&[("musl-gcc", "musl-tools")])?;
    let toolchain = Toolchain::find(root)?;
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    // Rust asks for LLVM's unwinder, in whose place that of gcc does.
    let unwinder = toolchain.target_folder.join("unwinder");
    fs::create_dir_all(&unwinder)?;
    let object = unwinder.join("unwinder.o");
    let source = root.join("xtask/src/targets/unwinder.c");
    succeed(Command::new("musl-gcc").args(["-O2", "-c", "-o"]).arg(&object).arg(source))?;
    let parts = format!("INPUT({} -lgcc_eh -lgcc)\n", object.display());
    fs::write(unwinder.join("libunwind.a"), parts).context("naming an unwinder")?;
    let mut build = toolchain.cargo("build", &target);
    build.args(["--profile", profile, "--package", "flash", "--bin", "flash"]);
    build.env(format!("CC_{}", in_variables(&target)), "musl-gcc");
    let of_cargo = format!("CARGO_TARGET_{}", in_variables(&target).to_uppercase());
    build.env(format!("{of_cargo}_LINKER"), "musl-gcc").env(
        format!("{of_cargo}_RUSTFLAGS"),
        format!(
            "-Clink-self-contained=no -Ctarget-feature=+crt-static -Crelocation-model=static -L{}",
            unwinder.display()
        ),
    );
    ensure!(build.status().context("starting rustup")?.success(), "it does not build for {target}");
    let program = toolchain.target_folder.join(target).join(profile).join("flash");
    let headers = succeed(Command::new("readelf").arg("--program-headers").arg(&program))?;
    ensure!(!headers.contains("INTERP"), "{} is not static: it names a loader", program.display());
    Ok(program)
}
