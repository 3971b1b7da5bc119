//! A dependency earns its line: a comment on it or above it says why it is there. Our own crates need no reason, and the
//! workspace only has the versions of what crates give reasons for.

use super::Finding;
use super::source::Source;

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut within = false;
    let mut before = "";
    for (number, line) in source.text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.split(']').next().unwrap_or_default();
            within = table.ends_with("dependencies") && table != "workspace.dependencies";
            // `[dependencies.name]` is a dependency itself.
            if let Some((kind, name)) = table.rsplit_once('.')
                && kind.ends_with("dependencies")
                && !ours(name)
                && !explained(line, before)
            {
                findings.push(unexplained(source, number, name));
            }
        } else if within && let Some((name, _)) = line.split_once('=') {
            // `flash-core.workspace = true` and `flash-core = { … }` alike.
            let name = name.split('.').next().unwrap_or_default().trim();
            if !line.starts_with('#') && !ours(name) && !explained(line, before) {
                findings.push(unexplained(source, number, name));
            }
        }
        before = line;
    }
    findings
}

fn ours(name: &str) -> bool {
    name == "flash" || name.starts_with("flash-")
}

fn explained(line: &str, before: &str) -> bool {
    before.starts_with('#') || line.contains(" #")
}

fn unexplained(source: &Source, number: usize, name: &str) -> Finding {
    Finding::at(source, number, format!("the dependency `{name}` has no reason beside it or above it"))
}
