//! `cargo xtask ci`: every check. CI runs this and nothing else, and so do people. A check that fails does not keep the
//! others from running; only what cannot be built or installed does. The summary closes the output.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::summary::Summary;
use crate::test::{self, Half};
use crate::{cargo, check, deny, logs, package, prepare};

/// What compiles our own crates: it makes what rustc makes, and finds what clippy finds. So one build is for all steps.
const COMPILER: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");

/// Runs every step. True when all passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    if env::var_os(COMPILER.0).is_none() {
        let mut again = Command::new(env::current_exe()?);
        return Err(again.arg("ci").env(COMPILER.0, COMPILER.1).exec()).context("starting again with clippy");
    }
    let mut summary = Summary::default();
    // The machine's packages come while the compiler works.
    let here = root.to_path_buf();
    let prepare = thread::spawn(move || prepare::run(&here));
    summary.step("fmt", |_| cargo::run(root, &["fmt", "--all", "--check"]));
    summary.step("check", |_| invariants(root));
    summary.step("deny", |_| deny::run(root));
    let built = summary.step("build server", |_| build(root, Half::Server));
    let prepared = summary.step("prepare", |summary| {
        let missing = prepare.join().expect("it does not panic")?;
        missing.iter().for_each(|line| summary.notice(line));
        Ok(())
    });
    if built && prepared {
        summary.step("test server", |summary| test::run(root, Half::Server, summary));
    }
    if summary.step("build tools", |_| build(root, Half::Study)) && prepared {
        summary.step("test tools", |summary| test::run(root, Half::Study, summary));
        // The lab waits for slow disks most of the time. Whether it works is asked here, and not what it measures.
        let lab = |row: &mut Summary| {
            row.step("lab", |summary| lab(root, summary));
        };
        summary.beside(lab, |row| {
            row.step("sim", |summary| sim(root, summary));
            row.step("package", |summary| package::check(root, summary));
        });
    }
    println!("{summary}");
    Ok(summary.passed())
}

/// Builds a half, and fails at warnings.
fn build(root: &Path, half: Half) -> Result<()> {
    test::build(root, &half.built_with())?;
    no_warning(&test::messages(root, &half.built_with())?)
}

fn invariants(root: &Path) -> Result<()> {
    if !check::run(root)? {
        bail!("invariants are broken");
    }
    Ok(())
}

/// Fails at what the compiler has to say. Cargo repeats it as long as the code stays.
fn no_warning(messages: &str) -> Result<()> {
    let mut warnings = 0;
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("reading what cargo says")?;
        if message["reason"] == "compiler-message" {
            println!("{}", message["message"]["rendered"].as_str().unwrap_or(line));
            warnings += 1;
        }
    }
    ensure!(warnings == 0, "{warnings} warnings");
    Ok(())
}

/// Every plan once, in its short form, with the servers that are installed, and the page about them.
fn lab(root: &Path, summary: &mut Summary) -> Result<()> {
    let target = cargo::target_folder(root);
    let out = target.join("lab");
    let traces = match traces(root) {
        Some(traces) => traces,
        None => {
            summary.notice("NOT TESTED: the lab's plans on real logs (FLASH_TRACES names their folder): they replay made-up ones");
            let made_up = target.join("made-up-logs");
            logs::make(&made_up)?;
            made_up
        }
    };
    let ran = sibling(root, "flash-lab", &["run", "all", "--quick", "--fresh"], &out, &traces, summary);
    match (ran, rustix::process::geteuid().is_root()) {
        (Err(error), false) => {
            summary
                .notice(&format!("NOT TESTED: plans of the lab that need the superuser's rights: {error:#}"));
        }
        (ran, _) => ran?,
    }
    sibling(root, "flash-lab", &["report"], &out, &traces, summary)
}

/// The PIPELINED paper in its short form.
fn sim(root: &Path, summary: &mut Summary) -> Result<()> {
    let out = cargo::target_folder(root).join("paper");
    sibling(root, "flash-sim", &["paper", "--quick"], &out, Path::new(""), summary)
}

/// Runs a program of ours, as the tests were built.
fn sibling(
    root: &Path,
    program: &str,
    args: &[&str],
    out: &Path,
    traces: &Path,
    summary: &mut Summary,
) -> Result<()> {
    let target = cargo::target_folder(root);
    let path = target.join("debug").join(program);
    let mut command = Command::new(&path);
    command.args(args).arg("--out").arg(out).current_dir(root).stdin(Stdio::null());
    command.env("FLASH_BIN", target.join("release/flash")).env("FLASH_TRACES", traces);
    let (mut failed, mut last) = (Vec::new(), String::new());
    let status = cargo::listen(&mut command, |line| {
        summary.notice(line);
        if line.contains("FAILED:") {
            failed.push(line.trim().to_owned());
        }
        last = line.to_owned();
    })
    .with_context(|| format!("starting {}", path.display()))?;
    ensure!(status.success(), "{program} {} ({status}): {last}; {}", args.join(" "), failed.join("; "));
    Ok(())
}

/// Real logs, where they are named or lie beside the workspace.
fn traces(root: &Path) -> Option<PathBuf> {
    env::var_os("FLASH_TRACES")
        .map_or_else(|| root.join("../shared/traces"), PathBuf::from)
        .canonicalize()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_fails() {
        let artifact = r#"{"reason":"compiler-artifact"}"#;
        let warning = r#"{"reason":"compiler-message","message":{"rendered":"warning: unused"}}"#;
        assert!(no_warning(artifact).is_ok());
        assert!(no_warning(&format!("{artifact}\n{warning}")).is_err() && no_warning("error").is_err());
    }
}
