//! `cargo xtask systems`: the server for FreeBSD and macOS, checked by the compiler alone, since none of these systems is here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;

use super::toolchain::{Toolchain, in_variables};

const SYSTEMS: [&str; 2] = ["x86_64-unknown-freebsd", "aarch64-apple-darwin"];

/// True when it compiles for all. Otherwise each error is printed, and the number in each crate.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let toolchain = Toolchain::find(root)?;
    let mut compiles = true;
    for system in SYSTEMS {
        let errors = errors(&toolchain, system)?;
        errors.values().flatten().for_each(|error| println!("{error}"));
        let counts: Vec<String> = errors.iter().map(|(name, all)| format!("{name} {}", all.len())).collect();
        println!("{system}: {}", if counts.is_empty() { "compiles".into() } else { counts.join(", ") });
        compiles &= errors.is_empty();
    }
    Ok(compiles)
}

/// Errors by crate.
fn errors(toolchain: &Toolchain, system: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let mut check = toolchain.cargo("check", system);
    check.args(["--package", "flash", "--keep-going", "--message-format=json"]);
    // Nothing is linked, so what compiles C only has to seem to work.
    for tool in ["CC", "CXX", "AR"] {
        check.env(format!("{tool}_{}", in_variables(system)), "true");
    }
    let output = check.stderr(Stdio::inherit()).output().context("starting rustup")?;
    let mut errors = BTreeMap::<String, Vec<String>>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("reading what cargo says")?;
        let said = &message["message"];
        if said["level"] == "error" && said["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
            errors.entry(name).or_default().push(shown(said));
        }
    }
    if errors.is_empty() && !output.status.success() {
        errors.entry("cargo".into()).or_default().push("fails, as it says above".into());
    }
    Ok(errors)
}

/// `file:line: what is wrong`.
fn shown(said: &Value) -> String {
    let span = &said["spans"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}:{}: {}", text(&span["file_name"]), span["line_start"], text(&said["message"]))
}
