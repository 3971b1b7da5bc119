//! Unsafe code is flash-os's alone, and there each block carries its proof.

use super::Finding;
use super::source::{Line, Source};

/// A crate root, not flash-os's, forbids it.
pub(crate) fn check_root(source: &Source) -> Option<Finding> {
    let forbids = source.lines.iter().any(|line| line.bare.trim() == "#![forbid(unsafe_code)]");
    (!forbids).then(|| Finding::at(source, 1, "a crate root without `#![forbid(unsafe_code)]`"))
}

/// In flash-os, an unsafe block or implementation follows a `// SAFETY:` that says why it is sound.
pub(crate) fn check_blocks(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("crates/flash-os/") {
        return Vec::new();
    }
    let blocks = (0..source.lines.len()).filter(|&at| opens_unsafe(source, at));
    let unproved = blocks.filter(|&at| !proved(&source.lines, at));
    unproved
        .map(|at| Finding::at(source, at + 1, "an unsafe block without a `// SAFETY:` before it"))
        .collect()
}

/// Whether an unsafe block or implementation begins on this line. Functions state their conditions in their
/// docs.
fn opens_unsafe(source: &Source, at: usize) -> bool {
    let bare = &source.lines[at].bare;
    let mut words = bare.match_indices("unsafe");
    words.any(|(start, word)| {
        let alone = !bare[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let after = bare[start + word.len()..].trim_start();
        let next = if after.is_empty() {
            source.lines.get(at + 1).map_or("", |line| line.bare.trim())
        } else {
            after
        };
        alone && (next.starts_with('{') || next.starts_with("impl"))
    })
}

/// Looks on the line itself, then upwards through the statement's beginning and the comment above it.
fn proved(lines: &[Line], at: usize) -> bool {
    if lines[at].comment.contains("SAFETY:") {
        return true;
    }
    for line in lines[..at].iter().rev() {
        if line.comment.contains("SAFETY:") {
            return true;
        }
        let code = line.bare.trim();
        let blank = code.is_empty() && line.comment.is_empty();
        if blank || code.ends_with([';', '{', '}', ',']) {
            return false;
        }
    }
    false
}
