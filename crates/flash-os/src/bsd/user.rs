//! Users of whole processes: no thread has one of its own, and root has no parts.

use std::io;

pub(crate) struct OwnRights;

pub(crate) fn give_up_rights() -> io::Result<()> {
    Ok(())
}

/// All of root's rights stay, since none can be given up alone.
pub(crate) fn keep_right_to_users() -> io::Result<()> {
    Ok(())
}

pub(crate) fn take_for_this_thread(_user: u32, _group: u32, _groups: &[u32]) -> io::Result<OwnRights> {
    Err(io::ErrorKind::Unsupported.into())
}
