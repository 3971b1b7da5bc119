//! Every module opens by saying what it is.

use super::Finding;
use super::source::Source;

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
    findings
}
