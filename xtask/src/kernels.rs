//! `cargo xtask kernels`: the server on older kernels, those of Debian 11 (5.10) and Debian 12 (6.1), in qemu's emulator.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, bail, ensure};

use crate::cargo;
use crate::debian::need;
use crate::machine::{AMD64, Machine};

pub(crate) const HELP: &str = "\
cargo xtask kernels [--program FILE]  boots older kernels, and has the server do everything there once in each architecture:
                                      two minutes; without FILE with target/release/flash
";

const RELEASES: [&str; 2] = ["bullseye", "bookworm"];
const SECONDS_MAX: u32 = 300;

/// True when no request was missed and no process left.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let program = match args {
        [] => cargo::target_folder(root).join("release/flash"),
        ["--program", program] => PathBuf::from(program),
        _ => bail!("no such option: {}\n{HELP}", args.join(" ")),
    };
    ensure!(program.exists(), "{} is missing: cargo build --release", program.display());
    need(AMD64.needs)?;
    let machine = Machine::new(root, &AMD64, &program, &[])?;
    let right: Result<Vec<bool>> = thread::scope(|scope| {
        let boots = RELEASES.map(|release| scope.spawn(|| machine.boot(root, release, SECONDS_MAX)));
        boots.into_iter().map(|boot| boot.join().expect("it does not panic")).collect()
    });
    Ok(right?.into_iter().all(|is_right| is_right))
}
