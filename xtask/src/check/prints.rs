//! Programs print by `flash_cli`: the macros of the standard library panic when the reader of a pipe has left. Tests and
//! build scripts may use them.

use super::Finding;
use super::source::Source;

const MACROS: [&str; 4] = ["print!", "println!", "eprint!", "eprintln!"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let may_print = |part: &str| ["tests", "tests.rs", "testing", "examples", "build.rs"].contains(&part);
    if !source.path.starts_with("crates/") || source.path.split('/').any(may_print) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.numbered() {
        // Tests are the end of a file, or another file.
        let next = source.lines.get(number).map_or("", |next| next.bare.trim());
        if line.bare.trim() == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{') {
            break;
        }
        let is_macro_char = |c: char| c.is_alphanumeric() || c == '_' || c == '!';
        let words = line.bare.split(|c| !is_macro_char(c));
        for word in words.filter(|word| MACROS.contains(word)) {
            let instead = if word.starts_with('e') { "flash_cli::say" } else { "flash_cli::print" };
            let what = format!("`{word}` panics when its reader has left: use {instead}");
            findings.push(Finding::at(source, number, what));
        }
    }
    findings
}
