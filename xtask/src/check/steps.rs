//! No `cfg` on the request path: the steps are one text on every system. Tests and assertions do not change
//! it.

use super::Finding;
use super::source::Source;

const REQUEST_PATH: [&str; 2] = ["crates/flash-core/src/exchange", "crates/flash-core/src/protocol"];
const ALLOWED: [&str; 2] = ["test)", "debug_assertions)"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if !REQUEST_PATH.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.numbered() {
        let mut rest = line.bare.as_str();
        while let Some(at) = rest.find("cfg") {
            rest = rest[at + 3..].trim_start_matches("_attr").trim_start_matches('!');
            let Some(condition) = rest.strip_prefix('(') else { continue };
            if !ALLOWED.iter().any(|allowed| condition.starts_with(allowed)) {
                findings.push(Finding::at(
                    source,
                    number,
                    "`cfg` on the request path; only `test`, `debug_assertions`",
                ));
            }
        }
    }
    findings
}
