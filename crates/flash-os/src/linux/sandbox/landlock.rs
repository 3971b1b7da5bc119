//! Landlock: no name of the filesystem can be opened, made, removed or run, except for reading below some folders. A
//! newer kernel also forbids TCP connections, sockets of other processes, and signals to them.
//!
//! Open files stay open, and a file that another process passes on can be used. Helpers rely on that.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest version that is asked for. Older kernels take away what they know.
const NEWEST: ABI = ABI::V6;

pub(super) fn forbid_but_reading(folders: &[PathBuf], memory: Option<&Path>) -> Result<(), String> {
    let status = restrict(folders, memory).map_err(|error| format!("Landlock fails: {error}"))?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, _) => Ok(()),
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Err("Landlock is switched off in this kernel".into())
        }
        (RulesetStatus::NotEnforced, _) => Err("this kernel has no Landlock".into()),
    }
}

fn restrict(folders: &[PathBuf], memory: Option<&Path>) -> Result<landlock::RestrictionStatus, RulesetError> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let making = reading | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile;
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // A folder that is gone needs no rule.
        .add_rules(path_beneath_rules(folders, reading))?
        // Where memory has no files of its own, they are made there.
        .add_rules(path_beneath_rules(memory, making))?
        .restrict_self()
}
