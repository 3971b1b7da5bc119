//! The paths whose files are never sent: those that `--deny` names, and backups beside programs.

use flash_core::site::path_rules::{PathRule, PathRules};

use super::programs::Programs;
use crate::flags::{self, Denial};

/// What the names of files end in that editors and people leave beside the one that they change.
const BACKUP_SUFFIXES: [&[u8]; 4] = [b"~", b".bak", b".swp", b".orig"];

/// What may be the source of a program, left behind by an editor or a person.
pub(super) fn backups(flags: &flags::Serve, programs: &Programs) -> impl Iterator<Item = PathRule> {
    let is_denied = !programs.suffixes().is_empty() && !flags.programs.serve_backups;
    let suffixes: &[&[u8]] = if is_denied { &BACKUP_SUFFIXES } else { &[] };
    suffixes.iter().map(|&suffix| PathRule::Suffix(suffix.into()))
}

/// The paths of files that are never sent, whatever lies there.
pub(super) fn paths(flags: &flags::Serve, programs: &Programs) -> PathRules {
    flags.deny.iter().filter_map(Denial::path).cloned().chain(backups(flags, programs)).collect()
}
