//! Every test; those programs of tests that failed run once more, one test at a time. Many tests hold Flash to a time, and on a
//! loaded machine the time may be the neighbour's fault. A fault of ours fails twice; what fails once is named.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::cargo;

pub(crate) fn run(root: &Path) -> Result<()> {
    let flash = cargo::target_folder(root).join("release/flash");
    let failed = run_once(root, &flash, &["--workspace", "--no-fail-fast"])?;
    for target in &failed {
        println!("FAILED ONCE: cargo test {target}; again, one test at a time");
        let args: Vec<&str> = target.split(' ').chain(["--", "--test-threads=1"]).collect();
        if !run_once(root, &flash, &args)?.is_empty() {
            bail!("cargo test {target} failed twice");
        }
    }
    for target in &failed {
        println!("FAILED ONCE, then passed: cargo test {target}");
    }
    Ok(())
}

/// Runs tests, and gives back the arguments that name the programs of tests that failed.
fn run_once(root: &Path, flash: &Path, args: &[&str]) -> Result<Vec<String>> {
    let mut command = cargo::command(root);
    command.arg("test").args(args).env("FLASH_BIN", flash).stderr(Stdio::piped());
    let mut cargo = command.spawn().context("starting cargo")?;
    let mut failed = Vec::new();
    for line in BufReader::new(cargo.stderr.take().expect("it is piped")).lines() {
        let line = line.context("reading what cargo says")?;
        eprintln!("{line}");
        failed.extend(failed_target(&line).map(str::to_owned));
    }
    let passed = cargo.wait().context("waiting for cargo")?.success();
    if !passed && failed.is_empty() {
        bail!("cargo test {} failed", args.join(" "));
    }
    Ok(failed)
}

/// At its end cargo lists the programs that failed, each as the arguments that run it alone.
fn failed_target(line: &str) -> Option<&str> {
    let arguments = line.strip_prefix("    `")?.strip_suffix('`')?;
    arguments.starts_with("-p ").then_some(arguments)
}

#[cfg(test)]
mod tests {
    use super::failed_target;

    #[test]
    fn programs_that_failed_are_found_in_what_cargo_says() {
        assert_eq!(failed_target("    `-p flash-load --test truth`"), Some("-p flash-load --test truth"));
        assert_eq!(failed_target("    `-p flash-core --lib`"), Some("-p flash-core --lib"));
        for other in ["error: 2 targets failed:", "    `cargo test`", "test a ... FAILED", "    `-p half"] {
            assert_eq!(failed_target(other), None, "{other}");
        }
    }
}
