//! `cargo xtask bpf`: the kernel's side of `flash why`, compiled. It lies in the repository, so that nobody needs clang to build
//! the program. It is for any kernel: it fits itself to the running one when it is loaded (CO-RE).

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::succeed;

/// The object, beside its source.
pub(crate) const OBJECT: &str = "crates/flash-why/src/bpf/why.bpf.o";
const SOURCE: &str = "crates/flash-why/src/bpf/why.bpf.c";
/// What made the object. Another version makes other instructions of the same source.
const CLANG: &str = "clang version 14.0.6";

/// Compiles the source anew.
///
/// # Errors
/// When clang or llvm-strip is not there, or does not take it.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let object = root.join(OBJECT);
    fs::write(&object, compile(root)?).with_context(|| format!("writing {}", object.display()))?;
    println!("{}", object.display());
    Ok(true)
}

/// Whether the object is what the source says; and nothing where there is no clang of the version that made it.
///
/// # Errors
/// When clang does not take the source, or the object cannot be read.
pub(crate) fn is_stale(root: &Path) -> Result<Option<bool>> {
    let version = Command::new("clang").arg("--version").output();
    if !version.is_ok_and(|run| String::from_utf8_lossy(&run.stdout).contains(CLANG)) {
        return Ok(None);
    }
    let object = root.join(OBJECT);
    let made = fs::read(&object).with_context(|| format!("reading {}", object.display()))?;
    Ok(Some(made != compile(root)?))
}

fn compile(root: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let object = folder.path().join("why.bpf.o");
    let mut clang = Command::new("clang");
    clang.args([
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-g",
        "-Wall",
        "-Wno-unused-function",
        "-ffile-compilation-dir=.",
        "-c",
        SOURCE,
        "-o",
    ]);
    succeed(clang.arg(&object).current_dir(root))?;
    // The kernel wants the types (BTF); what debuggers read names folders of this machine.
    succeed(Command::new("llvm-strip").arg("--strip-debug").arg(&object))?;
    let bytes = fs::read(&object)?;
    ensure!(!bytes.is_empty(), "clang made nothing");
    Ok(bytes)
}
