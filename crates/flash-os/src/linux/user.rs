//! Users of single threads, and capabilities.

use std::io;

use rustix::process::{self, Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Gives up what a user's process may have left of root's rights (SECBIT_NO_SETUID_FIXUP).
pub(crate) fn give_up_rights() -> io::Result<()> {
    if capabilities(None)?.permitted.is_empty() { Ok(()) } else { keep(CapabilitySet::empty()) }
}

pub(crate) fn keep_right_to_users() -> io::Result<()> {
    keep(capabilities(None)?.permitted & (CapabilitySet::SETUID | CapabilitySet::SETGID))
}

fn keep(kept: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?)
}

/// What a thread has back in the end.
pub(crate) struct OwnRights {
    groups: Vec<Gid>,
    group: Gid,
}

/// Makes this thread that user's, until what is returned is dropped.
pub(crate) fn take_for_this_thread(user: u32, group: u32, groups: &[u32]) -> io::Result<OwnRights> {
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    let own = OwnRights { groups: process::getgroups()?, group: process::getegid() };
    // From here on it is undone, whatever happens.
    thread::set_thread_groups(&groups)?;
    thread::set_thread_res_gid(None, Gid::from_raw(group), None)?;
    // The real and the saved user stay root, so that nobody else can send signals or look in.
    thread::set_thread_res_uid(None, Uid::from_raw(user), None)?;
    Ok(own)
}

impl Drop for OwnRights {
    fn drop(&mut self) {
        let restored = thread::set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| thread::set_thread_res_gid(None, self.group, None))
            .and_then(|()| thread::set_thread_groups(&self.groups));
        // What would follow is not meant to be done with half of the rights.
        restored.expect("a saved user can be taken again");
    }
}
