//! Which programs of tests a change reaches: those of the crates in which files differ from the last commit, and of all that
//! depend on them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::programs::Program;
use crate::cargo;

/// A crate of the workspace: its folder, and the folders of the crates that it uses.
struct Member {
    folder: PathBuf,
    uses: Vec<PathBuf>,
}

/// Leaves the programs that the change reaches.
///
/// # Errors
/// When git or cargo does not answer.
pub(super) fn retain(root: &Path, programs: &mut Vec<Program>) -> Result<()> {
    let git = |args: &[&str]| cargo::succeed(std::process::Command::new("git").args(args).current_dir(root));
    // What differs, and what git does not know yet.
    let mut paths = git(&["diff", "--name-only", "--relative", "HEAD"])?;
    paths.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    let metadata = cargo::output(root, &["metadata", "--no-deps", "--format-version=1"])?;
    let metadata = serde_json::from_slice(&metadata).context("reading what cargo says of the workspace")?;
    let changed: Vec<PathBuf> = paths.lines().map(|path| root.join(path)).collect();
    let reached = reached(&members(&metadata), &changed);
    programs.retain(|program| program.is_documentation() || reached.contains(&program.folder));
    Ok(())
}

fn members(metadata: &Value) -> Vec<Member> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let member = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let uses = dependencies.filter_map(|dependency| Some(dependency["path"].as_str()?.into())).collect();
        Some(Member { folder, uses })
    };
    packages.filter_map(member).collect()
}

/// The folders of the crates that a change reaches. A file outside all of them, such as the workspace's manifest, reaches all.
fn reached(members: &[Member], changed: &[PathBuf]) -> BTreeSet<PathBuf> {
    // A crate may lie in the folder of another.
    let depth = |member: &&Member| member.folder.components().count();
    let holder =
        |path: &PathBuf| members.iter().filter(|member| path.starts_with(&member.folder)).max_by_key(depth);
    let is_code = |path: &&PathBuf| path.extension().is_none_or(|end| end != "md");
    let mut reached = BTreeSet::new();
    for path in changed.iter().filter(is_code) {
        match holder(path) {
            Some(member) => reached.insert(member.folder.clone()),
            None => return members.iter().map(|member| member.folder.clone()).collect(),
        };
    }
    // Once for each crate is enough for the longest chain.
    for _ in members {
        for member in members {
            if member.uses.iter().any(|used| reached.contains(used)) {
                reached.insert(member.folder.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_what_depends_on_it() {
        let member = |folder: &str, uses: &[&str]| Member {
            folder: folder.into(),
            uses: uses.iter().map(PathBuf::from).collect(),
        };
        let members =
            [member("/w/end", &["/w/middle"]), member("/w/middle", &["/w/base"]), member("/w/base", &[])];
        let reach = |changed: &[&str]| {
            let changed: Vec<PathBuf> = changed.iter().map(PathBuf::from).collect();
            reached(&members, &changed).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(reach(&["/w/base/src/lib.rs"]), ["/w/base", "/w/end", "/w/middle"]);
        assert_eq!(reach(&["/w/middle/Cargo.toml"]), ["/w/end", "/w/middle"]);
        assert_eq!(reach(&["/w/Cargo.toml"]).len(), 3);
        assert!(reach(&["/w/README.md"]).is_empty() && reach(&[]).is_empty());
    }
}
