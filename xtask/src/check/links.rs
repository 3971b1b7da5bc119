//! Each link of the documentation leads to a file that exists, and its anchor to a heading of that page. Other sites are not
//! looked at.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::source::Source;

/// `exists` is asked for paths from the workspace's root.
pub(crate) fn check(pages: &[Source], exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let anchors: HashMap<&Path, BTreeSet<String>> =
        pages.iter().map(|page| (Path::new(&page.path), anchors(&page.text))).collect();
    let mut findings = Vec::new();
    for page in pages {
        let own = Path::new(&page.path);
        let folder = own.parent().unwrap_or(Path::new(""));
        for (number, line) in (1..).zip(page.text.lines()) {
            for link in links(line) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = if file.is_empty() { own.to_owned() } else { normal(&folder.join(file)) };
                let has_anchor =
                    anchor.is_empty() || anchors.get(&*path).is_none_or(|anchors| anchors.contains(anchor));
                if !exists(&path) || !has_anchor {
                    let message = format!("a link to {link}, which does not exist");
                    findings.push(Finding::at(page, number, message));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target#anchor)` that are here.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// The anchors that a forge gives the headings of a page: lower case, without punctuation, with hyphens for spaces. A heading
/// that is there twice gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        let anchor = heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let free = [anchor.clone()].into_iter().chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
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
        let text = "[a](a.md) and [b](../src/b.rs#part)\n[c](#here-1) [d](https://x/y) [gone](gone.md)\n\
            ## Here\n## Here\n[e](a.md#the-ends-of-a-file) [f](a.md#no) [g](#there)\n```\n# There\n```\n";
        let other = "# The *ends* of `a` file\n";
        let pages = [Source::new("docs/page.md", text), Source::new("docs/a.md", other)];
        let here = ["docs/a.md", "docs/page.md", "src/b.rs"].map(Path::new);
        let findings = check(&pages, |path| here.contains(&path));
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "docs/page.md:2: a link to gone.md, which does not exist",
                "docs/page.md:5: a link to a.md#no, which does not exist",
                "docs/page.md:5: a link to #there, which does not exist",
            ]
        );
    }
}
