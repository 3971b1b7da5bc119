//! `cargo xtask ci`: every check, in order, up to the first that fails. CI runs this and nothing else, and so
//! do people. The tests come last, so that their closing lines close the output.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{cargo, check, prepare, test};

type Step = (&'static str, fn(&Path) -> Result<()>);

const STEPS: [Step; 9] = [
    ("fmt", |root| cargo::run(root, &["fmt", "--all", "--check"])),
    ("check", invariants),
    ("clippy", |root| {
        cargo::run(root, &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
    }),
    ("deny", deny),
    ("prepare", |_| prepare::run()),
    // The end-to-end tests run the program that people run.
    ("build", |root| cargo::run(root, &["build", "--release", "--workspace"])),
    ("lab", lab),
    ("sim", sim),
    ("test", test::run),
];

/// Runs every step; the error names the one that failed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    for (name, step) in STEPS {
        println!("== {name}");
        let start = Instant::now();
        step(root).with_context(|| format!("ci stops at {name}"))?;
        // Nothing may follow the tests' own last lines.
        if name != "test" {
            println!("== {name}: ok, {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    Ok(true)
}

fn invariants(root: &Path) -> Result<()> {
    if !check::run(root)? {
        bail!("invariants are broken");
    }
    Ok(())
}

/// Licences, sources and duplicates. Advisories need a clone of their database and are for people to ask for.
fn deny(root: &Path) -> Result<()> {
    if flash_rig::find("cargo-deny").is_err() {
        println!("MISSING: cargo-deny, so deny.toml is not enforced (cargo install --locked cargo-deny)");
        return Ok(());
    }
    cargo::run(root, &["deny", "check", "bans", "licenses", "sources"])
}

/// Every plan once, in its short form, with the servers that are installed, and the page about them.
fn lab(root: &Path) -> Result<()> {
    let out = cargo::target_folder(root).join("lab");
    let ran = sibling(root, "flash-lab", &["run", "all", "--quick", "--fresh"], &out);
    match (ran, traces(root).is_some() && rustix::process::geteuid().is_root()) {
        (Err(error), false) => println!(
            "MISSING: the superuser's rights, or real logs (FLASH_TRACES), so that not all plans are run: {error:#}"
        ),
        (ran, _) => ran?,
    }
    sibling(root, "flash-lab", &["report"], &out)
}

/// The PIPELINED paper in its short form.
fn sim(root: &Path) -> Result<()> {
    sibling(root, "flash-sim", &["paper", "--quick"], &cargo::target_folder(root).join("paper"))
}

fn sibling(root: &Path, program: &str, args: &[&str], out: &Path) -> Result<()> {
    let path = cargo::target_folder(root).join("release").join(program);
    let mut command = Command::new(&path);
    command.args(args).arg("--out").arg(out).current_dir(root);
    if let Some(traces) = traces(root) {
        command.env("FLASH_TRACES", traces);
    }
    let status = command.status().with_context(|| format!("starting {}", path.display()))?;
    if !status.success() {
        bail!("{program} {} failed ({status})", args.join(" "));
    }
    Ok(())
}

/// Real logs, where they are named or lie beside the workspace.
fn traces(root: &Path) -> Option<PathBuf> {
    env::var_os("FLASH_TRACES")
        .map_or_else(|| root.join("../shared/traces"), PathBuf::from)
        .canonicalize()
        .ok()
}
