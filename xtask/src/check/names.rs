//! No "which architecture?" below flash-arch: the crates of the request path know no architecture's name.
//! Comments may speak of them.

use super::Finding;
use super::source::Source;

const BELOW: [&str; 6] = [
    "crates/flash-core/",
    "crates/flash-cgi/",
    "crates/flash-h2/",
    "crates/flash-http/",
    "crates/flash-disk/",
    "crates/flash-os/",
];
/// Names that mean nothing else, as a part of any word.
const PARTS: [&str; 3] = ["amped", "sped", "uring"];
/// Short names, and HTTP's own word, that mean an architecture only as they stand here.
const WORDS: [&str; 8] = ["Arch", "arch", "Architecture", "Mp", "MP", "Mt", "MT", "Pipelined"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if !BELOW.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.numbered() {
        let words = line.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| names_one(word)) {
            findings.push(Finding::at(
                source,
                number,
                format!("`{word}` is an architecture's name, below flash-arch"),
            ));
        }
    }
    findings
}

fn names_one(word: &str) -> bool {
    // The kernel's name for its rings, and that of the crate for them.
    if matches!(word, "io_uring" | "IoUring") {
        return false;
    }
    WORDS.contains(&word) || parts(word).iter().any(|part| PARTS.contains(&part.as_str()))
}

/// `is_sped` and `IsSped` are `is`, `sped`.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in word.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c != '_' {
            parts.last_mut().expect("it begins with one").extend(c.to_lowercase());
        }
    }
    parts
}
