//! Access rules (POSIX ACLs) in the kernel's memory, for processes of other users.
//!
//! `openat2(RESOLVE_CACHED)` checks the rules of each folder on its way. For the owner of a folder there are none to check. For anybody
//! else the kernel needs to have read them, or to know that there are none. If only the owner walks there, nobody ever reads them.
//! Others then get EAGAIN as long as the folder is in memory, as if it were not.

use std::os::fd::OwnedFd;

use flash_os::file_hints;

use crate::blocking::Blocking;
use crate::root::Root;

impl Root {
    /// Has the kernel read the rules of a file that was found by this name, and of the folders above it. May wait for the disk.
    pub(crate) fn read_access_rules(&self, name: &[u8], file: &OwnedFd, blocking: Blocking) {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in std::iter::once(0).chain(ends) {
            if let Ok(folder) = self.open_folder(&name[..end], blocking) {
                file_hints::read_access_rules(folder);
            }
        }
        file_hints::read_access_rules(file);
    }
}
