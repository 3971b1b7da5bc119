//! Landlock: no name of the filesystem can be opened, made, removed or run, except for reading below some folders.
//! Where the kernel is new enough, no TCP connection, no socket of other processes, and no signal to them either.
//!
//! What is open already stays open, and whatever another process passes on can be used: that is what helpers are for.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest that this was written for. Older kernels take away what they know.
const NEWEST: ABI = ABI::V6;

pub(super) fn forbid_but_reading(folders: &[PathBuf]) -> Result<(), String> {
    let status = restrict(folders).map_err(|error| format!("Landlock fails: {error}"))?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, _) => Ok(()),
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Err("Landlock is switched off in this kernel".into())
        }
        (RulesetStatus::NotEnforced, _) => Err("this kernel has no Landlock".into()),
    }
}

fn restrict(folders: &[PathBuf]) -> Result<landlock::RestrictionStatus, RulesetError> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // A folder that has vanished cannot be read, and needs no rule.
        .add_rules(path_beneath_rules(folders, reading))?
        .restrict_self()
}
