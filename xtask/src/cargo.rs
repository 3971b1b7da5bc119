//! Running cargo and other programs, with their output where people see it.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The profile of packages and of what is measured: optimised as a whole.
pub(crate) const DIST: &str = "dist";

/// The cargo that runs us, or the one in PATH.
pub(crate) fn program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo in the workspace.
pub(crate) fn command(root: &Path) -> Command {
    let mut command = Command::new(program());
    command.current_dir(root);
    command
}

/// Runs cargo in the workspace, and fails when it fails.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<()> {
    let status = command(root).args(args).status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    Ok(())
}

/// Runs a program to its end, and shows each line of its output, on standard output and standard error, to a listener as well.
pub(crate) fn listen(command: &mut Command, mut hear: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the ends to write to, and so keeps the pipe open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        hear(&line);
    }
    child.wait()
}

/// Runs a program to its end, and gives what it prints.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?} failed: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}

/// What cargo prints for these arguments.
pub(crate) fn output(root: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output = command(root).args(args).output().context("starting cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
