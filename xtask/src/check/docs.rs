//! Every module opens by saying what it is, and no file grows past what a reader holds in mind.

use super::Finding;
use super::source::Source;

const LINES_MAX: usize = 500;

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let first = source.text.lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        findings.push(Finding::at(
            source,
            1,
            "a module opens with `//!`: what it is, where on the request's way",
        ));
    }
    let lines = source.lines.len();
    if lines > LINES_MAX {
        findings.push(Finding::at(source, LINES_MAX, format!("{lines} lines; {LINES_MAX} at most")));
    }
    findings
}
