//! Each link of the documentation leads to a file that exists. Anchors within a file and other sites are not looked at.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::source::Source;

/// `exists` is asked for paths from the workspace's root.
pub(crate) fn check(page: &Source, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        for link in links(line) {
            if !exists(&normal(&folder.join(link))) {
                findings.push(Finding::at(page, number, format!("a link to {link}, which does not exist")));
            }
        }
    }
    findings
}

/// The targets of `[text](target#anchor)` that are files.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

/// Without `..`, as a reader's browser resolves it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "[a](a.md) and [b](../src/b.rs#part)\n[c](#here) [d](https://x/y) [gone](gone.md)\n";
        let page = Source::new("docs/page.md", text);
        let exists = |path: &Path| [Path::new("docs/a.md"), Path::new("src/b.rs")].contains(&path);
        let findings = check(&page, exists);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "docs/page.md:2: a link to gone.md, which does not exist");
    }
}
