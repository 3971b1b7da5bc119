//! Landlock: no name of the filesystem can be opened, made, removed or run, except for reading, and changing, below some folders. A
//! newer kernel also forbids TCP connections, sockets of other processes, and signals to them.
//!
//! Open files stay open, and a file that another process passes on can be used. Helpers rely on that.

use std::path::{Path, PathBuf};

use crate::sandbox::Work;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest version that is asked for. Older kernels take away what they know.
const NEWEST: ABI = ABI::V6;

pub(super) fn forbid_but_reading(
    work: Work,
    readable: &[PathBuf],
    changed: (&[PathBuf], Option<&Path>),
) -> Result<(), String> {
    let status = restrict(work, readable, changed).map_err(|error| format!("Landlock fails: {error}"))?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, _) => Ok(()),
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Err("Landlock is switched off in this kernel".into())
        }
        (RulesetStatus::NotEnforced, _) => Err("this kernel has no Landlock".into()),
    }
}

fn restrict(
    work: Work,
    readable: &[PathBuf],
    (writable, memory): (&[PathBuf], Option<&Path>),
) -> Result<landlock::RestrictionStatus, RulesetError> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let making = reading | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile;
    let changing = match work {
        // Each socket is made in a folder of its own. The library that removes that lists it first.
        Work::ConnectForOthers => {
            let removing = AccessFs::RemoveFile | AccessFs::RemoveDir;
            AccessFs::ReadDir | AccessFs::MakeDir | AccessFs::MakeSock | removing
        }
        _ => making | AccessFs::MakeDir | AccessFs::Truncate,
    };
    let net = match work {
        Work::Connect | Work::ConnectForOthers => AccessNet::BindTcp.into(),
        Work::Serve | Work::Read | Work::Both => AccessNet::from_all(NEWEST),
    };
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(net)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        // A folder that is gone needs no rule.
        .add_rules(path_beneath_rules(readable, reading))?
        .add_rules(path_beneath_rules(writable, changing))?
        // Where memory has no files of its own, they are made there.
        .add_rules(path_beneath_rules(memory, making))?
        .restrict_self()
}
