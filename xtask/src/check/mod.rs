//! `cargo xtask check`: the invariants that the compiler does not hold. Each rule is a file; each takes text
//! and returns findings, so that its tests need no workspace. What rustfmt, clippy and cargo-deny say is
//! theirs.

mod circles;
mod docs;
mod finding;
mod layers;
mod links;
mod manifest;
mod names;
mod prints;
mod source;
mod steps;
#[cfg(test)]
mod tests;
mod unsafety;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use self::finding::Finding;
use self::source::Source;
use crate::{bpf, cargo};

/// Checks the workspace and prints what it finds. True when that is nothing.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let metadata: Value =
        serde_json::from_slice(&cargo::output(root, &["metadata", "--format-version", "1"])?)?;
    let mut findings = layers::check(&metadata);
    let sources = read(root, "rs")?;
    for source in &sources {
        findings.extend(docs::check(source));
        findings.extend(names::check(source));
        findings.extend(prints::check(source));
        findings.extend(steps::check(source));
        findings.extend(unsafety::check_blocks(source));
    }
    findings.extend(circles::check(&sources));
    for path in crate_roots(root, &metadata) {
        match sources.iter().find(|source| source.path == path) {
            Some(source) => findings.extend(unsafety::check_root(source)),
            None => findings
                .push(Finding { place: path, message: "a crate root that is in no known folder".into() }),
        }
    }
    for source in &read(root, "toml")? {
        findings.extend(manifest::check(source));
    }
    let pages = pages(root)?;
    findings.extend(links::check(&pages, |path| root.join(path).exists()));
    match bpf::is_stale(root)? {
        None => println!(
            "NOT CHECKED: whether {} is what its source says: that needs clang 14.0.6 (apt-get install clang llvm)",
            bpf::OBJECT
        ),
        Some(false) => {}
        Some(true) => {
            let message = "it is not what its source says: run cargo xtask bpf".to_owned();
            findings.push(Finding { place: bpf::OBJECT.to_owned(), message });
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("check: {} files, {} findings", sources.len(), findings.len());
    Ok(findings.is_empty())
}

/// The folders in which code of ours lies.
const FOLDERS: [&str; 5] = ["crates", "xtask", "tests", "fuzz", "examples"];

/// Every source file or manifest with this extension below those folders.
fn read(root: &Path, extension: &str) -> Result<Vec<Source>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        walk(&root.join(folder), &mut files)?;
    }
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    if extension == "toml" {
        files.retain(|file| file.file_name().is_some_and(|name| name == "Cargo.toml"));
        files.push(root.join("Cargo.toml"));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        sources.push(Source::new(&relative(root, &file), &text));
    }
    Ok(sources)
}

/// The documentation: Markdown at the root and in docs.
fn pages(root: &Path) -> Result<Vec<Source>> {
    let mut pages = Vec::new();
    for folder in [root.to_path_buf(), root.join("docs")] {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text =
                    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                pages.push(Source::new(&relative(root, &path), &text));
            }
        }
    }
    Ok(pages)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" {
            walk(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn relative(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned()
}

/// The first file of every library, program, test and bench, but for flash-os, which is there to be unsafe.
fn crate_roots(root: &Path, metadata: &Value) -> Vec<String> {
    let mut roots = Vec::new();
    for package in layers::members(metadata).filter(|package| package["name"] != "flash-os") {
        for target in package["targets"].as_array().into_iter().flatten() {
            if let Some(path) = target["src_path"].as_str() {
                roots.push(relative(root, Path::new(path)));
            }
        }
    }
    roots
}
